/*
 * Connecting and disconnecting in C over librdmacm, one connection after the other, each with a
 * queue pair of its own: dev.verbena.bench.Connecting does the same from Java. The client prints
 * the median of each round: from rdma_create_id until the connection stands, from rdma_disconnect
 * until all is destroyed, and both.
 */
#include "cm.h"

static struct ibv_pd *pd;
static struct ibv_cq *queue;

static void make_queue_pair(struct rdma_cm_id *id)
{
	struct ibv_qp_init_attr init = {
		.qp_type = IBV_QPT_RC,
		.cap = {.max_send_wr = 16, .max_recv_wr = 16, .max_send_sge = 1, .max_recv_sge = 1},
	};
	if (!pd) {
		pd = check_pointer(ibv_alloc_pd(id->verbs), "ibv_alloc_pd");
		queue = check_pointer(ibv_create_cq(id->verbs, 64, NULL, NULL, 0), "ibv_create_cq");
	}
	init.send_cq = init.recv_cq = queue;
	check(rdma_create_qp(id, pd, &init), "rdma_create_qp");
}

static void destroy(struct rdma_cm_id *id)
{
	rdma_destroy_qp(id);
	check(rdma_destroy_id(id), "rdma_destroy_id");
}

static void serve(struct rdma_event_channel *channel, struct options *options)
{
	struct rdma_cm_id *listener = listen_on(channel, options);
	uint64_t left = options->warmup + options->rounds * options->count;
	while (left > 0) {
		struct rdma_cm_event *event = next_event(channel);
		struct rdma_cm_id *id = event->id;
		enum rdma_cm_event_type type = event->event;
		struct rdma_conn_param answer = connection;
		check(rdma_ack_cm_event(event), "rdma_ack_cm_event");
		switch (type) {
		case RDMA_CM_EVENT_CONNECT_REQUEST:
			make_queue_pair(id);
			check(rdma_accept(id, &answer), "rdma_accept");
			break;
		case RDMA_CM_EVENT_ESTABLISHED:
			break;
		case RDMA_CM_EVENT_DISCONNECTED:
			check(rdma_disconnect(id), "rdma_disconnect"); /* the client waits for it */
			destroy(id);
			left--;
			break;
		case RDMA_CM_EVENT_TIMEWAIT_EXIT:
			break;
		default:
			fail("%s while serving", rdma_event_str(type));
		}
	}
	check(rdma_destroy_id(listener), "rdma_destroy_id");
}

static void connect_once(struct rdma_event_channel *channel, struct options *options,
			 uint64_t *connecting, uint64_t *disconnecting)
{
	struct rdma_conn_param request = connection;
	uint64_t start = now(), middle;
	struct rdma_cm_id *id = resolve(channel, options);
	make_queue_pair(id);
	check(rdma_connect(id, &request), "rdma_connect");
	expect(channel, RDMA_CM_EVENT_ESTABLISHED);
	middle = now();
	check(rdma_disconnect(id), "rdma_disconnect");
	expect(channel, RDMA_CM_EVENT_DISCONNECTED);
	destroy(id);
	*connecting = middle - start;
	*disconnecting = now() - middle;
}

static void measure(struct rdma_event_channel *channel, struct options *options, uint64_t count,
		    bool print)
{
	uint64_t *connecting = check_pointer(calloc(count, sizeof(uint64_t)), "calloc");
	uint64_t *disconnecting = check_pointer(calloc(count, sizeof(uint64_t)), "calloc");
	uint64_t *both = check_pointer(calloc(count, sizeof(uint64_t)), "calloc");
	for (uint64_t i = 0; i < count; i++) {
		connect_once(channel, options, &connecting[i], &disconnecting[i]);
		both[i] = connecting[i] + disconnecting[i];
	}
	if (print) {
		result("connect-disconnect", "-", median(both, count) / 1000, "us");
		result("connect", "-", median(connecting, count) / 1000, "us");
		result("disconnect", "-", median(disconnecting, count) / 1000, "us");
	}
	free(connecting);
	free(disconnecting);
	free(both);
}

int main(int argc, char **argv)
{
	struct options options =
		parse(argc, argv, (struct options){.count = 50, .warmup = 1000, .rounds = 5});
	struct rdma_event_channel *channel =
		check_pointer(rdma_create_event_channel(), "rdma_create_event_channel");
	if (options.server) {
		serve(channel, &options);
		return 0;
	}
	measure(channel, &options, options.warmup, false);
	for (uint64_t i = 0; i < options.rounds; i++)
		measure(channel, &options, options.count, true);
	return 0;
}

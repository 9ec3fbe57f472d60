/*
 * A ping-pong of 64 bytes in C in which each side sleeps until the other's message is there:
 * dev.verbena.bench.Events does the same from Java. The client prints half of a round trip, median
 * and mean of each round.
 *
 * Receives complete in a queue with a channel; sends in one without, which is looked at before the
 * next send, when its completion has long been there. To sleep: poll, arm, poll again, wait; the
 * wait has a deadline (poll(2)), as has Java's. With --blocking it has none but that of the process
 * (alarm): one system call less, and a program that would hang with its peer.
 */
#include "cm.h"

#include <unistd.h>

#define BYTES 64
#define DEPTH 16
#define ACKNOWLEDGE 64 /* events at a time, as ibv_ack_cq_events takes a lock */

static struct rdma_cm_id *id;
static struct ibv_pd *pd;
static struct ibv_comp_channel *channel;
static struct ibv_cq *sent, *received;
static struct ibv_mr *mr;
static bool armed, blocking, sending;
static unsigned unacknowledged;

static void prepare(struct rdma_cm_id *resolved)
{
	struct ibv_qp_init_attr init = {
		.qp_type = IBV_QPT_RC,
		.cap = {.max_send_wr = DEPTH, .max_recv_wr = DEPTH, .max_send_sge = 1,
			.max_recv_sge = 1},
	};
	void *memory = check_pointer(aligned_alloc(4096, 4096), "aligned_alloc");
	memset(memory, 0, 4096);
	id = resolved;
	pd = check_pointer(ibv_alloc_pd(id->verbs), "ibv_alloc_pd");
	channel = check_pointer(ibv_create_comp_channel(id->verbs), "ibv_create_comp_channel");
	received = check_pointer(ibv_create_cq(id->verbs, 2 * DEPTH, NULL, channel, 0),
				 "ibv_create_cq");
	sent = check_pointer(ibv_create_cq(id->verbs, 2 * DEPTH, NULL, NULL, 0), "ibv_create_cq");
	init.send_cq = sent;
	init.recv_cq = received;
	check(rdma_create_qp(id, pd, &init), "rdma_create_qp");
	mr = check_pointer(ibv_reg_mr(pd, memory, 4096, IBV_ACCESS_LOCAL_WRITE), "ibv_reg_mr");
}

static void post_receive(void)
{
	struct ibv_sge buffer = {.addr = (uintptr_t)mr->addr + BYTES, .length = BYTES,
				 .lkey = mr->lkey};
	struct ibv_recv_wr request = {.wr_id = 1, .sg_list = &buffer, .num_sge = 1};
	struct ibv_recv_wr *refused;
	check(ibv_post_recv(id->qp, &request, &refused), "ibv_post_recv");
}

static void check_completion(const struct ibv_wc *completion)
{
	if (completion->status != IBV_WC_SUCCESS)
		fail("a request ended with: %s", ibv_wc_status_str(completion->status));
}

/* Sends, after the completion of the send before. */
static void send_message(void)
{
	struct ibv_sge buffer = {.addr = (uintptr_t)mr->addr, .length = BYTES, .lkey = mr->lkey};
	struct ibv_send_wr request = {.wr_id = 2, .sg_list = &buffer, .num_sge = 1,
				      .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED};
	struct ibv_send_wr *refused;
	struct ibv_wc completion;
	if (sending) {
		uint64_t deadline = 0;
		int count;
		while ((count = ibv_poll_cq(sent, 1, &completion)) == 0) {
			if (!deadline)
				deadline = now() + DEADLINE_MS * 1000000ull;
			else if (now() > deadline)
				fail("No end of a send within %d s", DEADLINE_MS / 1000);
		}
		if (count < 0)
			fail("ibv_poll_cq: %d", count);
		check_completion(&completion);
	}
	check(ibv_post_send(id->qp, &request, &refused), "ibv_post_send");
	sending = true;
}

static void wait_for_event(void)
{
	struct ibv_cq *cq;
	void *user;
	if (!blocking)
		await_readable(channel->fd, "message of the peer");
	check(ibv_get_cq_event(channel, &cq, &user), "ibv_get_cq_event");
	if (++unacknowledged == ACKNOWLEDGE) {
		ibv_ack_cq_events(received, unacknowledged);
		unacknowledged = 0;
	}
}

/* Waits for the next message, and posts its receive anew. */
static void await_message(void)
{
	struct ibv_wc completions[DEPTH];
	int count;
	while ((count = ibv_poll_cq(received, DEPTH, completions)) == 0) {
		if (armed) {
			wait_for_event();
			armed = false;
		} else {
			check(ibv_req_notify_cq(received, 0), "ibv_req_notify_cq");
			armed = true;
		}
	}
	if (count != 1)
		fail("ibv_poll_cq: %d, where one message is outstanding", count);
	check_completion(completions);
	if (completions[0].byte_len != BYTES)
		fail("%u bytes came, of %d", completions[0].byte_len, BYTES);
	post_receive();
}

static void measure(uint64_t count, bool print)
{
	uint64_t *times = check_pointer(calloc(count, sizeof *times), "calloc");
	for (uint64_t i = 0; i < count; i++) {
		uint64_t start = now();
		send_message();
		await_message();
		times[i] = now() - start;
	}
	if (print) {
		const char *name = blocking ? "events-blocking" : "events";
		result(name, "bytes=%d mean", mean(times, count) / 2000, "us", BYTES);
		result(name, "bytes=%d median", median(times, count) / 2000, "us", BYTES);
	}
	free(times);
}

static void serve(struct rdma_event_channel *events, struct options *options)
{
	struct rdma_cm_id *listener = listen_on(events, options);
	struct rdma_conn_param answer = connection;
	struct rdma_cm_event *event = next_event(events);
	if (event->event != RDMA_CM_EVENT_CONNECT_REQUEST)
		fail("%s instead of a request", rdma_event_str(event->event));
	prepare(event->id);
	check(rdma_ack_cm_event(event), "rdma_ack_cm_event");
	for (int i = 0; i < DEPTH; i++)
		post_receive();
	check(rdma_accept(id, &answer), "rdma_accept");
	expect(events, RDMA_CM_EVENT_ESTABLISHED);
	for (uint64_t i = options->warmup + options->rounds * options->count; i > 0; i--) {
		await_message();
		send_message();
	}
	expect(events, RDMA_CM_EVENT_DISCONNECTED);
	check(rdma_disconnect(id), "rdma_disconnect");
	check(rdma_destroy_id(listener), "rdma_destroy_id");
}

static void run(struct rdma_event_channel *events, struct options *options)
{
	struct rdma_conn_param request = connection;
	prepare(resolve(events, options));
	for (int i = 0; i < DEPTH; i++)
		post_receive();
	check(rdma_connect(id, &request), "rdma_connect");
	expect(events, RDMA_CM_EVENT_ESTABLISHED);
	measure(options->warmup, false);
	for (uint64_t i = 0; i < options->rounds; i++)
		measure(options->count, true);
	check(rdma_disconnect(id), "rdma_disconnect");
	expect(events, RDMA_CM_EVENT_DISCONNECTED);
}

int main(int argc, char **argv)
{
	struct options options =
		parse(argc, argv, (struct options){.count = 2000, .warmup = 20000, .rounds = 5});
	struct rdma_event_channel *events =
		check_pointer(rdma_create_event_channel(), "rdma_create_event_channel");
	blocking = options.blocking;
	if (blocking)
		alarm(DEADLINE_MS / 1000 * 10);
	if (options.server)
		serve(events, &options);
	else
		run(events, &options);
	/* Its end frees the rest, as the process does. */
	return 0;
}

/*
 * The event path in C without a network, on the stand-in for libibverbs (stand_in.c): arm, post a
 * signalled send, wait, take and acknowledge the event, poll. The event is there before the wait,
 * so no thread sleeps: what is measured is the notification, and its system calls.
 * dev.verbena.bench.ArmAndAwait does the same from Java. The wait has a deadline, as has Java's.
 */
#include "common.h"

#include <infiniband/verbs.h>
#include <poll.h>

#define BATCH 100
#define DEADLINE_MS 10000

int main(int argc, char **argv)
{
	uint64_t milliseconds = 1000, rounds = 5;
	int count;
	struct ibv_device **list;
	struct ibv_context *context;
	struct ibv_pd *pd;
	struct ibv_comp_channel *channel;
	struct ibv_cq *queue;
	struct ibv_qp *queue_pair;
	struct ibv_sge buffer = {.length = 64};
	for (int i = 1; i < argc; i += 2) {
		if (i + 1 < argc && !strcmp(argv[i], "--ms"))
			milliseconds = number(argv[i], argv[i + 1]);
		else if (i + 1 < argc && !strcmp(argv[i], "--rounds"))
			rounds = number(argv[i], argv[i + 1]);
		else
			fail("usage: arm_await [--ms N] [--rounds N]");
	}
	list = check_pointer(ibv_get_device_list(&count), "ibv_get_device_list");
	if (count < 1 || strcmp(list[0]->name, "copy0") != 0)
		fail("libibverbs.so.1 is not the stand-in: it is to be in the folder stand-in beside "
		     "this program, and not in LD_LIBRARY_PATH as another one");
	context = check_pointer(ibv_open_device(list[0]), "ibv_open_device");
	pd = check_pointer(ibv_alloc_pd(context), "ibv_alloc_pd");
	channel = check_pointer(ibv_create_comp_channel(context), "ibv_create_comp_channel");
	queue = check_pointer(ibv_create_cq(context, 32, NULL, channel, 0), "ibv_create_cq");
	struct ibv_qp_init_attr init = {
		.send_cq = queue,
		.recv_cq = queue,
		.qp_type = IBV_QPT_RC,
		.cap = {.max_send_wr = 24, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1},
	};
	queue_pair = check_pointer(ibv_create_qp(pd, &init), "ibv_create_qp");
	for (int state = IBV_QPS_INIT; state <= IBV_QPS_RTS; state++) {
		struct ibv_qp_attr attributes = {.qp_state = state};
		check(ibv_modify_qp(queue_pair, &attributes, IBV_QP_STATE), "ibv_modify_qp");
	}
	/* Round 0 is for warming up. */
	for (uint64_t round = 0; round <= rounds; round++) {
		uint64_t start = now(), end, times = 0;
		do {
			for (int i = 0; i < BATCH; i++) {
				_Alignas(CACHE_LINE) struct ibv_send_wr request = {
					.wr_id = 7, .sg_list = &buffer, .num_sge = 1,
					.opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED};
				struct ibv_send_wr *refused;
				struct pollfd waited = {.fd = channel->fd, .events = POLLIN};
				_Alignas(CACHE_LINE) struct ibv_wc completion;
				struct ibv_cq *cq;
				void *user;
				check(ibv_req_notify_cq(queue, 0), "ibv_req_notify_cq");
				check(ibv_post_send(queue_pair, &request, &refused), "ibv_post_send");
				if (poll(&waited, 1, DEADLINE_MS) != 1)
					fail("No event within %d s", DEADLINE_MS / 1000);
				check(ibv_get_cq_event(channel, &cq, &user), "ibv_get_cq_event");
				ibv_ack_cq_events(cq, 1);
				if (ibv_poll_cq(queue, 1, &completion) != 1 ||
				    completion.status != IBV_WC_SUCCESS)
					fail("no completion, or a failure, behind an event");
			}
			times += BATCH;
			end = now();
		} while (end - start < milliseconds * 1000000);
		if (round > 0)
			result("arm-await", "-", (double)(end - start) / (double)times, "ns");
	}
	return 0;
}

/*
 * The cost of a message of 64 bytes in C by how many connections there are, on the stand-in for
 * libibverbs (stand_in.c): dev.verbena.bench.LoadMessages does the same from Java. One message on
 * each connection in turn, in a random order, from one queue pair to another: a send, its
 * completion, that of the receive, and the receive posted again. All queue pairs share their
 * receives and report to one completion queue. One line for each round, in ns of the thread's time
 * on a processor.
 */
#include "device.h"

#define RECEIVES 64 /* shared */
#define STRIDE 4160
#define SENDS 16
#define MOST_INLINE 128

static struct ibv_qp **pairs;
static uint64_t *order;
static struct ibv_cq *queue;
static struct ibv_srq *shared;
static struct ibv_sge sent, received[RECEIVES];
static volatile uint64_t sink; /* keeps the sums from being optimised away */

static void receive(uint64_t id)
{
	_Alignas(CACHE_LINE) struct ibv_recv_wr request = {
		.wr_id = id, .sg_list = &received[id], .num_sge = 1};
	struct ibv_recv_wr *refused;
	check(ibv_post_srq_recv(shared, &request, &refused), "ibv_post_srq_recv");
}

__attribute__((noinline)) static uint64_t message(struct ibv_qp *sender)
{
	_Alignas(CACHE_LINE) struct ibv_send_wr request;
	struct ibv_send_wr *refused;
	_Alignas(CACHE_LINE) struct ibv_wc completions[2];
	uint64_t sum = 0;
	int left = 2;
	fill(&request, 0, &sent, NULL);
	request.send_flags = IBV_SEND_SIGNALED | IBV_SEND_INLINE;
	check(ibv_post_send(sender, &request, &refused), "ibv_post_send");
	do {
		int count = ibv_poll_cq(queue, 2, completions);
		for (int i = 0; i < count; i++) {
			if (completions[i].status != IBV_WC_SUCCESS)
				fail("a request ended with status %d", completions[i].status);
			if (completions[i].opcode & IBV_WC_RECV) {
				receive(completions[i].wr_id);
				sum += completions[i].byte_len;
			}
		}
		left -= count;
	} while (left > 0);
	return sum;
}

static double round_of(uint64_t duration, uint64_t count)
{
	uint64_t start = now(), end, messages = 0, turns = 1 + 1000 / count;
	do {
		for (uint64_t turn = 0; turn < turns; turn++)
			for (uint64_t i = 0; i < count; i++)
				sink += message(pairs[2 * order[i]]);
		messages += turns * count;
		end = now();
	} while (end - start < duration);
	return (double)(end - start) / (double)messages;
}

static void shuffle(uint64_t count)
{
	order = check_pointer(calloc(count, sizeof *order), "calloc");
	for (uint64_t i = 0; i < count; i++) {
		uint64_t other = (uint64_t)rand() % (i + 1);
		order[i] = order[other];
		order[other] = i;
	}
}

static struct ibv_qp *sharing(struct device *device)
{
	static const enum ibv_qp_state states[] = {IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS};
	struct ibv_qp_init_attr init = {
		.send_cq = queue,
		.recv_cq = queue,
		.srq = shared,
		.qp_type = IBV_QPT_RC,
		.cap = {.max_send_wr = with_signals(SENDS), .max_send_sge = 1, .max_inline_data = MOST_INLINE},
	};
	struct ibv_qp *pair = check_pointer(ibv_create_qp(device->pd, &init), "ibv_create_qp");
	for (int i = 0; i < 3; i++) {
		struct ibv_qp_attr attributes = {.qp_state = states[i]};
		check(ibv_modify_qp(pair, &attributes, IBV_QP_STATE), "ibv_modify_qp");
	}
	return pair;
}

int main(int argc, char **argv)
{
	struct device device;
	uint64_t count = 5000, milliseconds = 150, rounds = 2;
	struct ibv_srq_init_attr receives = {.attr = {.max_wr = RECEIVES, .max_sge = 1}};
	struct ibv_mr *region;
	char *memory;
	for (int i = 1; i < argc; i += 2) {
		if (!strcmp(argv[i], "--pairs") && i + 1 < argc)
			count = number(argv[i], argv[i + 1]);
		else if (!strcmp(argv[i], "--ms") && i + 1 < argc)
			milliseconds = number(argv[i], argv[i + 1]);
		else if (!strcmp(argv[i], "--rounds") && i + 1 < argc)
			rounds = number(argv[i], argv[i + 1]);
		else
			fail("usage: load_messages [--pairs N] [--ms N] [--rounds N]");
	}
	measured = CLOCK_THREAD_CPUTIME_ID;
	open_device(&device);
	memory = pages((RECEIVES + 1) * STRIDE);
	region = check_pointer(
		ibv_reg_mr(device.pd, memory, (RECEIVES + 1) * STRIDE, IBV_ACCESS_LOCAL_WRITE), "ibv_reg_mr");
	queue = completion_queue(&device, 2 * (2 * (uint32_t)count + RECEIVES));
	shared = check_pointer(ibv_create_srq(device.pd, &receives), "ibv_create_srq");
	for (uint64_t i = 0; i < RECEIVES; i++) {
		received[i] = (struct ibv_sge){(uintptr_t)memory + i * STRIDE, STRIDE, region->lkey};
		receive(i);
	}
	sent = (struct ibv_sge){(uintptr_t)memory + (uintptr_t)RECEIVES * STRIDE, BYTES, region->lkey};
	pairs = check_pointer(calloc(2 * count, sizeof *pairs), "calloc");
	for (uint64_t i = 0; i < 2 * count; i++)
		pairs[i] = sharing(&device);
	for (uint64_t i = 0; i < 2 * count; i++) {
		struct ibv_qp_attr attributes = {.dest_qp_num = pairs[i ^ 1]->qp_num};
		check(ibv_modify_qp(pairs[i], &attributes, IBV_QP_DEST_QPN), "ibv_modify_qp");
	}
	shuffle(count);
	round_of(4 * milliseconds * 1000000, count); /* warm-up */
	for (uint64_t i = 0; i < rounds; i++)
		result("load-messages", "%d", round_of(milliseconds * 1000000, count), "ns", (int)count);
	return 0;
}

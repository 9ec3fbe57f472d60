/*
 * What a request costs in C by how much is going on, on the stand-in for libibverbs (stand_in.c):
 * dev.verbena.bench.Load does the same from Java. For each number of queue pairs on one completion
 * queue a send is posted on each and all completions are polled; for each depth so many sends are
 * posted on one queue pair, one by one, and polled. One line for each number: the median of the
 * rounds, in ns per request.
 */
#include "common.h"

#include <infiniband/verbs.h>

#define BYTES 64
#define MOST_PAIRS 1024
#define MOST_DEPTH 4096
#define BATCH 16 /* completions at a time */

static struct ibv_context *context;
static struct ibv_pd *pd;
static struct ibv_sge buffer;
static struct ibv_cq *queue;
static struct ibv_qp *pairs[MOST_PAIRS];
static volatile uint64_t sink; /* keeps the sums from being optimised away */

static void open_device(void)
{
	int count;
	struct ibv_device **list = check_pointer(ibv_get_device_list(&count), "ibv_get_device_list");
	void *memory = aligned_alloc(64, 4096);
	struct ibv_mr *mr;
	/* With a real libibverbs the numbers would mean something else. */
	if (count < 1 || strcmp(list[0]->name, "copy0") != 0)
		fail("libibverbs.so.1 is not the stand-in: it is to be in the folder stand-in beside "
		     "this program, and not in LD_LIBRARY_PATH as another one");
	context = check_pointer(ibv_open_device(list[0]), "ibv_open_device");
	ibv_free_device_list(list);
	pd = check_pointer(ibv_alloc_pd(context), "ibv_alloc_pd");
	mr = check_pointer(ibv_reg_mr(pd, memory, 4096, IBV_ACCESS_LOCAL_WRITE), "ibv_reg_mr");
	buffer.addr = (uintptr_t)memory;
	buffer.length = BYTES;
	buffer.lkey = mr->lkey;
}

static struct ibv_qp *connected(uint32_t depth)
{
	static const enum ibv_qp_state states[] = {IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS};
	struct ibv_qp_init_attr init = {
		.send_cq = queue,
		.recv_cq = queue,
		.qp_type = IBV_QPT_RC,
		.cap = {.max_send_wr = depth, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1},
	};
	struct ibv_qp *pair = check_pointer(ibv_create_qp(pd, &init), "ibv_create_qp");
	for (int i = 0; i < 3; i++) {
		struct ibv_qp_attr attributes = {.qp_state = states[i]};
		check(ibv_modify_qp(pair, &attributes, IBV_QP_STATE), "ibv_modify_qp");
	}
	return pair;
}

static inline void post(struct ibv_qp *pair, uint64_t id)
{
	struct ibv_send_wr *refused;
	struct ibv_send_wr request = {
		.wr_id = id,
		.sg_list = &buffer,
		.num_sge = 1,
		.opcode = IBV_WR_SEND,
		.send_flags = IBV_SEND_SIGNALED,
	};
	int error = ibv_post_send(pair, &request, &refused);
	if (error)
		fail("ibv_post_send: %s", strerror(error));
}

static inline uint64_t poll_all(int expected)
{
	struct ibv_wc completions[BATCH];
	uint64_t sum = 0;
	while (expected > 0) {
		int count = ibv_poll_cq(queue, BATCH, completions);
		if (count <= 0)
			fail("ibv_poll_cq: %d, with %d to come", count, expected);
		for (int i = 0; i < count; i++) {
			if (completions[i].status != IBV_WC_SUCCESS)
				fail("a request ended with status %d", completions[i].status);
			sum += completions[i].wr_id;
		}
		expected -= count;
	}
	return sum;
}

/* Goes round until the time is over; returns ns per request. */
__attribute__((noinline)) static double round_of(uint64_t duration, int count, int depth)
{
	uint64_t start = now(), end, requests = 0, sum = 0;
	/* Few looks at the clock where one time round is short. */
	int times = 1 + 1000 / (count * depth);
	do {
		for (int k = 0; k < times; k++) {
			for (int i = 0; i < count; i++)
				for (int j = 0; j < depth; j++)
					post(pairs[i], (uint64_t)j);
			sum += poll_all(count * depth);
			requests += (uint64_t)(count * depth);
		}
		end = now();
	} while (end - start < duration);
	sink = sum;
	return (double)(end - start) / (double)requests;
}

static void measure(const char *what, int parameter, int count, int depth, uint64_t duration,
		    size_t rounds)
{
	uint64_t *picoseconds = check_pointer(calloc(rounds, sizeof *picoseconds), "calloc");
	queue = check_pointer(ibv_create_cq(context, 2 * count * depth, NULL, NULL, 0),
			      "ibv_create_cq");
	for (int i = 0; i < count; i++)
		pairs[i] = connected((uint32_t)depth);
	round_of(duration, count, depth); /* warm-up */
	for (size_t i = 0; i < rounds; i++)
		picoseconds[i] = (uint64_t)(round_of(duration, count, depth) * 1000);
	result(what, "%d", median(picoseconds, rounds) / 1000, "ns", parameter);
	for (int i = 0; i < count; i++)
		check(ibv_destroy_qp(pairs[i]), "ibv_destroy_qp");
	check(ibv_destroy_cq(queue), "ibv_destroy_cq");
	free(picoseconds);
}

int main(int argc, char **argv)
{
	uint64_t milliseconds = 100, rounds = 5;
	for (int i = 1; i < argc; i += 2) {
		if (i + 1 < argc && !strcmp(argv[i], "--ms"))
			milliseconds = number(argv[i], argv[i + 1]);
		else if (i + 1 < argc && !strcmp(argv[i], "--rounds"))
			rounds = number(argv[i], argv[i + 1]);
		else
			fail("usage: load [--ms N] [--rounds N]");
	}
	open_device();
	for (int count = 1; count <= MOST_PAIRS; count *= 2)
		measure("load-queue-pairs", count, count, 1, milliseconds * 1000000, rounds);
	for (int depth = 1; depth <= MOST_DEPTH; depth *= 2)
		measure("load-depth", depth, 1, depth, milliseconds * 1000000, rounds);
	return 0;
}

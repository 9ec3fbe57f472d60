/*
 * The cost of a post and a poll in C, on the stand-in for libibverbs (stand_in.c): what
 * dev.verbena.bench.PostAndPoll does from Java. One line per round, in ns per request.
 *
 * The buffer list is built once, as in Java; the request is filled in for each post, as in a
 * program whose messages differ. With --prebuilt it is built once, too: no C program that sends
 * different messages can be that fast, but it is where the provider's own time shows.
 */
#include "common.h"

#include <infiniband/verbs.h>
#include <stdbool.h>

#define MOST 64
#define BYTES 64
#define BATCH 1000 /* posts between two looks at the clock */

static struct ibv_qp *queue_pair;
static struct ibv_cq *queue;
static struct ibv_sge buffer;
static volatile uint64_t sink; /* keeps the sums from being optimised away */

static void open_device(void)
{
	int count;
	struct ibv_device **list = check_pointer(ibv_get_device_list(&count), "ibv_get_device_list");
	struct ibv_context *context;
	struct ibv_pd *pd;
	struct ibv_mr *mr;
	void *memory = aligned_alloc(64, 4096);
	struct ibv_qp_attr attributes = {.qp_state = IBV_QPS_INIT};
	/* With a real libibverbs the numbers would mean something else. */
	if (count < 1 || strcmp(list[0]->name, "copy0") != 0)
		fail("libibverbs.so.1 is not the stand-in: it is to be in the folder stand-in beside "
		     "this program, and not in LD_LIBRARY_PATH as another one");
	context = check_pointer(ibv_open_device(list[0]), "ibv_open_device");
	ibv_free_device_list(list);
	pd = check_pointer(ibv_alloc_pd(context), "ibv_alloc_pd");
	mr = check_pointer(ibv_reg_mr(pd, memory, 4096, IBV_ACCESS_LOCAL_WRITE), "ibv_reg_mr");
	queue = check_pointer(ibv_create_cq(context, 512, NULL, NULL, 0), "ibv_create_cq");
	struct ibv_qp_init_attr init = {
		.send_cq = queue,
		.recv_cq = queue,
		.qp_type = IBV_QPT_RC,
		.cap = {.max_send_wr = 192, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1},
	};
	queue_pair = check_pointer(ibv_create_qp(pd, &init), "ibv_create_qp");
	check(ibv_modify_qp(queue_pair, &attributes, IBV_QP_STATE), "ibv_modify_qp(INIT)");
	attributes.qp_state = IBV_QPS_RTR;
	check(ibv_modify_qp(queue_pair, &attributes, IBV_QP_STATE), "ibv_modify_qp(RTR)");
	attributes.qp_state = IBV_QPS_RTS;
	check(ibv_modify_qp(queue_pair, &attributes, IBV_QP_STATE), "ibv_modify_qp(RTS)");
	buffer.addr = (uintptr_t)memory;
	buffer.length = BYTES;
	buffer.lkey = mr->lkey;
}

static inline void fill(struct ibv_send_wr *request, uint64_t id, struct ibv_send_wr *next)
{
	*request = (struct ibv_send_wr){
		.wr_id = id,
		.next = next,
		.sg_list = &buffer,
		.num_sge = 1,
		.opcode = IBV_WR_SEND,
		.send_flags = IBV_SEND_SIGNALED,
	};
}

static inline uint64_t post_and_poll(struct ibv_send_wr *requests, int chain)
{
	struct ibv_send_wr *refused;
	struct ibv_wc completions[MOST];
	uint64_t sum = 0;
	int error = ibv_post_send(queue_pair, requests, &refused);
	int count;
	if (error)
		fail("ibv_post_send: %s", strerror(error));
	count = ibv_poll_cq(queue, chain, completions);
	if (count != chain)
		fail("ibv_poll_cq: %d of %d", count, chain);
	for (int i = 0; i < count; i++) {
		if (completions[i].status != IBV_WC_SUCCESS)
			fail("a request ended with status %d", completions[i].status);
		sum += completions[i].wr_id;
	}
	return sum;
}

__attribute__((noinline)) static uint64_t ones(void)
{
	uint64_t sum = 0;
	for (int i = 0; i < BATCH; i++) {
		struct ibv_send_wr request;
		fill(&request, 7, NULL);
		sum += post_and_poll(&request, 1);
	}
	return sum;
}

__attribute__((noinline)) static uint64_t chains(int chain)
{
	uint64_t sum = 0;
	for (int i = 0; i < BATCH; i++) {
		struct ibv_send_wr requests[MOST];
		for (int j = 0; j < chain; j++)
			fill(&requests[j], (uint64_t)j + 1, j + 1 < chain ? &requests[j + 1] : NULL);
		sum += post_and_poll(requests, chain);
	}
	return sum;
}

__attribute__((noinline)) static uint64_t prebuilt(struct ibv_send_wr *requests, int chain)
{
	uint64_t sum = 0;
	for (int i = 0; i < BATCH; i++)
		sum += post_and_poll(requests, chain);
	return sum;
}

static double round_of(uint64_t duration, int chain, bool build_once)
{
	struct ibv_send_wr requests[MOST];
	uint64_t start, end, posts = 0;
	for (int j = 0; j < chain; j++)
		fill(&requests[j], (uint64_t)j + 1, j + 1 < chain ? &requests[j + 1] : NULL);
	start = now();
	do {
		sink += build_once ? prebuilt(requests, chain) : chain == 1 ? ones() : chains(chain);
		posts += BATCH;
		end = now();
	} while (end - start < duration);
	return (double)(end - start) / (double)(posts * (uint64_t)chain);
}

int main(int argc, char **argv)
{
	uint64_t chain = 1, milliseconds = 1000, rounds = 5;
	bool build_once = false;
	for (int i = 1; i < argc; i++) {
		if (!strcmp(argv[i], "--prebuilt"))
			build_once = true;
		else if (!strcmp(argv[i], "--cpu"))
			measured = CLOCK_THREAD_CPUTIME_ID;
		else if (!strcmp(argv[i], "--chain") && i + 1 < argc)
			chain = number(argv[i], argv[i + 1]), i++;
		else if (!strcmp(argv[i], "--ms") && i + 1 < argc)
			milliseconds = number(argv[i], argv[i + 1]), i++;
		else if (!strcmp(argv[i], "--rounds") && i + 1 < argc)
			rounds = number(argv[i], argv[i + 1]), i++;
		else
			fail("usage: post_poll [--chain N] [--ms N] [--rounds N] [--prebuilt] [--cpu]");
	}
	if (chain > MOST)
		fail("--chain is %d at most", MOST);
	open_device();
	round_of(milliseconds * 1000000, (int)chain, build_once); /* warm-up */
	for (uint64_t i = 0; i < rounds; i++)
		result(build_once ? "post-poll-prebuilt" : "post-poll", "chain=%d",
		       round_of(milliseconds * 1000000, (int)chain, build_once), "ns", (int)chain);
	return 0;
}

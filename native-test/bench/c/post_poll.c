/*
 * The cost of a post and a poll in C, on the stand-in for libibverbs (stand_in.c): what
 * dev.verbena.bench.PostAndPoll does from Java. One line per round, in ns per request.
 *
 * The buffer list is built once, as in Java; the request is filled in for each post, as in a
 * program whose messages differ. With --tuned requests are filled in once and linked, and a post
 * writes what differs from the one before: the id. With --clock cpu time is the thread's on a processor.
 */
#include "device.h"

#include <stdbool.h>

#define MOST 64
#define BATCH 1000 /* posts between two looks at the clock */

static struct ibv_qp *queue_pair;
static struct ibv_cq *queue;
static struct ibv_sge buffer;
static volatile uint64_t sink; /* keeps the sums from being optimised away */

static inline uint64_t post_and_poll(struct ibv_send_wr *requests, int chain)
{
	struct ibv_send_wr *refused;
	_Alignas(CACHE_LINE) struct ibv_wc completions[MOST];
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
		_Alignas(CACHE_LINE) struct ibv_send_wr request;
		fill(&request, 7, &buffer, NULL);
		sum += post_and_poll(&request, 1);
	}
	return sum;
}

__attribute__((noinline)) static uint64_t chains(int chain)
{
	uint64_t sum = 0;
	for (int i = 0; i < BATCH; i++) {
		_Alignas(CACHE_LINE) struct ibv_send_wr requests[MOST];
		for (int j = 0; j < chain; j++)
			fill(&requests[j], (uint64_t)j + 1, &buffer, j + 1 < chain ? &requests[j + 1] : NULL);
		sum += post_and_poll(requests, chain);
	}
	return sum;
}

__attribute__((noinline)) static uint64_t tuned(struct ibv_send_wr *requests, int chain)
{
	uint64_t sum = 0;
	for (int i = 0; i < BATCH; i++) {
		for (int j = 0; j < chain; j++)
			requests[j].wr_id = (uint64_t)(i + j + 1);
		sum += post_and_poll(requests, chain);
	}
	return sum;
}

static double round_of(uint64_t duration, int chain, bool build_once)
{
	static _Alignas(CACHE_LINE) struct ibv_send_wr requests[MOST];
	uint64_t start, end, posts = 0;
	for (int j = 0; j < chain; j++)
		fill(&requests[j], (uint64_t)j + 1, &buffer, j + 1 < chain ? &requests[j + 1] : NULL);
	start = now();
	do {
		sink += build_once ? tuned(requests, chain) : chain == 1 ? ones() : chains(chain);
		posts += BATCH;
		end = now();
	} while (end - start < duration);
	return (double)(end - start) / (double)(posts * (uint64_t)chain);
}

int main(int argc, char **argv)
{
	struct device device;
	uint64_t chain = 1, milliseconds = 1000, rounds = 5;
	bool build_once = false;
	for (int i = 1; i < argc; i++) {
		if (!strcmp(argv[i], "--tuned"))
			build_once = true;
		else if (i + 1 < argc && !strcmp(argv[i], "--clock") && !strcmp(argv[i + 1], "cpu"))
			measured = CLOCK_THREAD_CPUTIME_ID, i++;
		else if (!strcmp(argv[i], "--chain") && i + 1 < argc)
			chain = number(argv[i], argv[i + 1]), i++;
		else if (!strcmp(argv[i], "--ms") && i + 1 < argc)
			milliseconds = number(argv[i], argv[i + 1]), i++;
		else if (!strcmp(argv[i], "--rounds") && i + 1 < argc)
			rounds = number(argv[i], argv[i + 1]), i++;
		else
			fail("usage: post_poll [--chain N] [--ms N] [--rounds N] [--tuned] [--clock cpu]");
	}
	if (chain > MOST)
		fail("--chain is %d at most", MOST);
	open_device(&device);
	buffer = device.buffer;
	queue = completion_queue(&device, 512);
	queue_pair = connected(&device, queue, with_signals(128), 1, 0);
	round_of(milliseconds * 1000000, (int)chain, build_once); /* warm-up */
	for (uint64_t i = 0; i < rounds; i++)
		result("post-poll", "chain=%d",
		       round_of(milliseconds * 1000000, (int)chain, build_once), "ns", (int)chain);
	return 0;
}

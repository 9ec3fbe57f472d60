/*
 * What a request costs in C by how much is going on, on the stand-in for libibverbs (stand_in.c):
 * dev.verbena.bench.Load does the same from Java. For each number of queue pairs on one completion
 * queue a send is posted on each and all completions are polled; for each depth so many sends are
 * posted on one queue pair, one by one, and polled. One line for each number: the median of the
 * rounds, in ns per request. With --pairs that number of queue pairs alone; with --tuned a request that
 * was filled in once, and a post writes its id only; with --clock cpu time is the thread's on a processor.
 */
#include "device.h"

#include <stdbool.h>

#define MOST_PAIRS 1024
#define MOST_DEPTH 4096
#define BATCH 16 /* completions at a time */

static struct device device;
static struct ibv_cq *queue;
static struct ibv_qp *pairs[MOST_PAIRS];
static _Alignas(CACHE_LINE) struct ibv_send_wr prepared;
static bool tuned;
static volatile uint64_t sink; /* keeps the sums from being optimised away */

static inline void post_prepared(struct ibv_qp *pair, uint64_t id)
{
	struct ibv_send_wr *refused;
	int error;
	prepared.wr_id = id;
	error = ibv_post_send(pair, &prepared, &refused);
	if (error)
		fail("ibv_post_send: %s", strerror(error));
}

static inline void post(struct ibv_qp *pair, uint64_t id)
{
	struct ibv_send_wr *refused;
	_Alignas(CACHE_LINE) struct ibv_send_wr request;
	int error;
	fill(&request, id, &device.buffer, NULL);
	error = ibv_post_send(pair, &request, &refused);
	if (error)
		fail("ibv_post_send: %s", strerror(error));
}

static inline uint64_t poll_all(int expected)
{
	_Alignas(CACHE_LINE) struct ibv_wc completions[BATCH];
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
					if (tuned)
						post_prepared(pairs[i], (uint64_t)j);
					else
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
	queue = completion_queue(&device, 2 * (uint32_t)(count * depth));
	for (int i = 0; i < count; i++)
		pairs[i] = connected(&device, queue, with_signals((uint32_t)depth), 1, 0);
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
	uint64_t milliseconds = 100, rounds = 5, alone = 0;
	for (int i = 1; i < argc; i++) {
		if (!strcmp(argv[i], "--tuned"))
			tuned = true;
		else if (i + 1 < argc && !strcmp(argv[i], "--clock") && !strcmp(argv[i + 1], "cpu"))
			measured = CLOCK_THREAD_CPUTIME_ID, i++;
		else if (i + 1 < argc && !strcmp(argv[i], "--ms"))
			milliseconds = number(argv[i], argv[i + 1]), i++;
		else if (i + 1 < argc && !strcmp(argv[i], "--rounds"))
			rounds = number(argv[i], argv[i + 1]), i++;
		else if (i + 1 < argc && !strcmp(argv[i], "--pairs"))
			alone = number(argv[i], argv[i + 1]), i++;
		else
			fail("usage: load [--ms N] [--rounds N] [--pairs N] [--tuned] [--clock cpu]");
	}
	if (alone > MOST_PAIRS)
		fail("--pairs is %d at most", MOST_PAIRS);
	open_device(&device);
	fill(&prepared, 0, &device.buffer, NULL);
	if (alone) {
		measure("load-queue-pairs", (int)alone, (int)alone, 1, milliseconds * 1000000, rounds);
		return 0;
	}
	for (int count = 1; count <= MOST_PAIRS; count *= 2)
		measure("load-queue-pairs", count, count, 1, milliseconds * 1000000, rounds);
	for (int depth = 1; depth <= MOST_DEPTH; depth *= 2)
		measure("load-depth", depth, 1, depth, milliseconds * 1000000, rounds);
	return 0;
}

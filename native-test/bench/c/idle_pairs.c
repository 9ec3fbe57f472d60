/*
 * What an idle queue pair of depth 16 takes of the C heap, on the stand-in for libibverbs
 * (stand_in.c): dev.verbena.bench.IdlePairs does the same from Java.
 */
#include "device.h"

#include <malloc.h>

static double used(void)
{
	struct mallinfo2 info = mallinfo2();
	return (double)(info.uordblks + info.hblkhd);
}

int main(int argc, char **argv)
{
	uint64_t count = 10000;
	struct device device;
	struct ibv_cq *queue;
	double before;
	for (int i = 1; i < argc; i += 2) {
		if (i + 1 < argc && !strcmp(argv[i], "--count"))
			count = number(argv[i], argv[i + 1]);
		else
			fail("usage: idle_pairs [--count N]");
	}
	open_device(&device);
	queue = completion_queue(&device, 64);
	before = used();
	for (uint64_t i = 0; i < count; i++)
		connected(&device, queue, 16, 16, 0);
	result("idle-queue-pair", "%s", (used() - before) / (double)count, "B", "native");
	return 0;
}

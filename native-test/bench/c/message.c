/*
 * The cost of a message from one queue pair to another in C, on the stand-in for libibverbs
 * (stand_in.c): what dev.verbena.bench.Messages.byHand does from Java. A send, its completion, that
 * of the receive, and the receive posted again; sixteen buffers on each side. One line for each
 * round, in ns of the thread's time on a processor.
 */
#include "device.h"

#define RECEIVES 16
#define STRIDE 4160 /* at least */
#define MOST_INLINE 128
#define MOST_BATCH 1000 /* messages between two looks at the clock */
#define LEAST_BATCH 32

static struct ibv_qp *sender, *receiver;
static struct ibv_cq *queue;
static struct ibv_sge sent[RECEIVES], received[RECEIVES];
static unsigned int flags = IBV_SEND_SIGNALED;
static uint64_t next;
static volatile uint64_t sink; /* keeps the sums from being optimised away */

static void receive(uint64_t id)
{
	_Alignas(CACHE_LINE) struct ibv_recv_wr request = {
		.wr_id = id, .sg_list = &received[id], .num_sge = 1};
	struct ibv_recv_wr *refused;
	check(ibv_post_recv(receiver, &request, &refused), "ibv_post_recv");
}

__attribute__((noinline)) static uint64_t message(void)
{
	_Alignas(CACHE_LINE) struct ibv_send_wr request;
	struct ibv_send_wr *refused;
	_Alignas(CACHE_LINE) struct ibv_wc completions[RECEIVES];
	uint64_t sum = 0, id = next = (next + 1) % RECEIVES;
	int left = 2;
	fill(&request, id, &sent[id], NULL);
	request.send_flags = flags;
	check(ibv_post_send(sender, &request, &refused), "ibv_post_send");
	do {
		int count = ibv_poll_cq(queue, RECEIVES, completions);
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

static double round_of(uint64_t duration, uint64_t batch)
{
	uint64_t start = now(), end, messages = 0;
	do {
		for (uint64_t i = 0; i < batch; i++)
			sink += message();
		messages += batch;
		end = now();
	} while (end - start < duration);
	return (double)(end - start) / (double)messages;
}

static void connect_to(struct ibv_qp *pair, const struct ibv_qp *other)
{
	struct ibv_qp_attr attributes = {.dest_qp_num = other->qp_num};
	check(ibv_modify_qp(pair, &attributes, IBV_QP_DEST_QPN), "ibv_modify_qp");
}

int main(int argc, char **argv)
{
	struct device device;
	uint64_t bytes = BYTES, milliseconds = 150, rounds = 2, stride, batch;
	struct ibv_mr *region;
	char *memory;
	for (int i = 1; i < argc; i++) {
		if (!strcmp(argv[i], "--bytes") && i + 1 < argc)
			bytes = number(argv[i], argv[i + 1]), i++;
		else if (!strcmp(argv[i], "--ms") && i + 1 < argc)
			milliseconds = number(argv[i], argv[i + 1]), i++;
		else if (!strcmp(argv[i], "--rounds") && i + 1 < argc)
			rounds = number(argv[i], argv[i + 1]), i++;
		else
			fail("usage: message [--bytes N] [--ms N] [--rounds N]");
	}
	measured = CLOCK_THREAD_CPUTIME_ID;
	stride = bytes < STRIDE ? STRIDE : (bytes + 63) / 64 * 64;
	batch = MOST_BATCH * BYTES / bytes;
	batch = batch < LEAST_BATCH ? LEAST_BATCH : batch > MOST_BATCH ? MOST_BATCH : batch;
	if (bytes <= MOST_INLINE)
		flags |= IBV_SEND_INLINE;
	open_device(&device);
	memory = pages(2 * RECEIVES * stride);
	region = check_pointer(
		ibv_reg_mr(device.pd, memory, 2 * RECEIVES * stride, IBV_ACCESS_LOCAL_WRITE), "ibv_reg_mr");
	queue = completion_queue(&device, 512);
	sender = connected(&device, queue, with_signals(64), RECEIVES, MOST_INLINE);
	receiver = connected(&device, queue, with_signals(64), RECEIVES, MOST_INLINE);
	connect_to(sender, receiver);
	connect_to(receiver, sender);
	for (uint64_t i = 0; i < RECEIVES; i++) {
		received[i] = (struct ibv_sge){(uintptr_t)memory + i * stride, (uint32_t)stride, region->lkey};
		sent[i] = (struct ibv_sge){(uintptr_t)memory + (RECEIVES + i) * stride, (uint32_t)bytes,
					   region->lkey};
		receive(i);
	}
	round_of(4 * milliseconds * 1000000, batch); /* warm-up */
	for (uint64_t i = 0; i < rounds; i++)
		result("message", "c bytes=%d", round_of(milliseconds * 1000000, batch), "ns", (int)bytes);
	return 0;
}

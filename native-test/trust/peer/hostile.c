/*
 * A peer that attacks a MessageServer over librdmacm and libibverbs. It knows the protocol of
 * channels (see the description of the package dev.verbena.messaging) and breaks it: each attack is
 * one connection, or several that are not to be accepted. dev.verbena.nativetest.HostilePeersTest
 * runs it and looks after each attack whether the server still serves others.
 *
 * It fails unless the server does in time what the attack is for: it prints ENDED when the server
 * has ended the attacker's connection, REFUSED when it has not accepted connections, and LEFT when
 * the attacker itself was to go.
 */
#include "cm.h"

#include <endian.h>
#include <infiniband/verbs.h>
#include <unistd.h>

#define BUFFER (1 << 20)
#define DEPTH 64
#define RECEIVE 8192

/* Of a frame, and of a note. */
enum { MESSAGE = 1, CREDIT, KEEP_ALIVE, LARGE, OFFER, WRITTEN };
enum { ASKED_BACK = 2, GIVEN_BACK };

/* The private data of a request: the header of every connection, then the channel's. */
struct __attribute__((packed)) request {
	uint8_t magic[4]; /* "Vbna" */
	uint8_t version, flags, header, length;
	uint8_t inbound_reads[2], outbound_reads[2];
	uint8_t channel[4]; /* "VBCH" */
	uint8_t channel_version, offers;
	uint16_t receives;
	uint32_t longest;
	uint16_t exposures, peer_exposures;
	uint32_t eager;
};

static const struct request honest = {
	"Vbna", 1, 1, 12, 20, {0, 1}, {0, 1}, "VBCH", 1, 1, 64, 1 << 16, 16, 16, 4096,
};

struct __attribute__((packed)) frame {
	uint8_t kind, version, notes, zero;
	uint32_t released, length, taken;
};

struct note {
	uint32_t kind, key;
};

static struct options where;
static struct rdma_event_channel *events;
static struct rdma_cm_id *id;
static struct ibv_pd *pd;
static struct ibv_cq *queue;
static struct ibv_mr *memory;
static uint8_t *buffer;
static uint64_t remote_address;
static uint32_t remote_key;

static void make_queue_pair(void)
{
	struct ibv_qp_init_attr init = {
		.qp_type = IBV_QPT_RC,
		.sq_sig_all = 1,
		.cap = {DEPTH, DEPTH, 1, 1, 0},
	};
	pd = check_pointer(ibv_alloc_pd(id->verbs), "ibv_alloc_pd");
	queue = check_pointer(ibv_create_cq(id->verbs, 2 * DEPTH, NULL, NULL, 0), "ibv_create_cq");
	init.send_cq = init.recv_cq = queue;
	check(rdma_create_qp(id, pd, &init), "rdma_create_qp");
	buffer = check_pointer(calloc(1, BUFFER), "calloc");
	memory = check_pointer(ibv_reg_mr(pd, buffer, BUFFER, IBV_ACCESS_LOCAL_WRITE), "ibv_reg_mr");
}

static void post_receives(int count)
{
	for (int i = 0; i < count; i++) {
		struct ibv_sge part = {(uintptr_t)buffer + BUFFER / 2 + (i % 32) * RECEIVE, RECEIVE,
				       memory->lkey};
		struct ibv_recv_wr receive = {.wr_id = part.addr, .sg_list = &part, .num_sge = 1}, *bad;
		check(ibv_post_recv(id->qp, &receive, &bad), "ibv_post_recv");
	}
}

static struct rdma_conn_param parameters(const void *data, size_t bytes)
{
	struct rdma_conn_param request = connection;
	request.private_data = data;
	request.private_data_len = (uint8_t)bytes;
	request.rnr_retry_count = 3;
	return request;
}

/* Connects, as an honest channel would. */
static void connect_with(int receives)
{
	struct rdma_conn_param request = parameters(&honest, sizeof honest);
	id = resolve(events, &where);
	make_queue_pair();
	post_receives(receives);
	check(rdma_connect(id, &request), "rdma_connect");
	expect(events, RDMA_CM_EVENT_ESTABLISHED);
}

static void post(enum ibv_wr_opcode opcode, size_t bytes, uint64_t address, uint32_t key)
{
	struct ibv_sge part = {(uintptr_t)buffer, (uint32_t)bytes, memory->lkey};
	struct ibv_send_wr send = {.sg_list = &part, .num_sge = 1, .opcode = opcode}, *bad;
	if (opcode == IBV_WR_SEND_WITH_INV)
		send.invalidate_rkey = key;
	else
		send.imm_data = 7;
	if (opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		send.wr.atomic.remote_addr = address;
		send.wr.atomic.rkey = key;
		send.wr.atomic.compare_add = 1;
	} else if (opcode != IBV_WR_SEND_WITH_INV) {
		send.wr.rdma.remote_addr = address;
		send.wr.rdma.rkey = key;
	}
	check(ibv_post_send(id->qp, &send, &bad), "ibv_post_send");
}

static void post_frame(int kind, uint32_t length, uint32_t released, size_t bytes)
{
	struct frame *frame = (struct frame *)buffer;
	*frame = (struct frame){(uint8_t)kind, 1, 0, 0, released, length, 0};
	post(IBV_WR_SEND, bytes, 0, 0);
}

/* Takes completions; what they say does not matter. */
static void drain(void)
{
	struct ibv_wc completions[16];
	while (ibv_poll_cq(queue, 16, completions) > 0)
		;
}

/* The server must end the connection. */
static void must_end(void)
{
	expect(events, RDMA_CM_EVENT_DISCONNECTED);
	puts("ENDED");
}

/* ---- attacks on the connection */

static void expect_refusal(const void *data, size_t bytes)
{
	struct rdma_conn_param request = parameters(data, bytes);
	id = resolve(events, &where);
	make_queue_pair();
	check(rdma_connect(id, &request), "rdma_connect");
	expect(events, RDMA_CM_EVENT_REJECTED);
	rdma_destroy_qp(id);
	ibv_dereg_mr(memory);
	ibv_destroy_cq(queue);
	ibv_dealloc_pd(pd);
	free(buffer);
	check(rdma_destroy_id(id), "rdma_destroy_id");
}

/* Of every length that the kernel sends: zeros, noise, or the beginning of a right one. */
static void private_data(void)
{
	uint8_t data[56];
	for (size_t bytes = 0; bytes <= sizeof data; bytes++) {
		for (uint64_t i = 0; i < where.count; i++) {
			uint64_t kind = (bytes + i) % 3;
			for (size_t j = 0; j < sizeof data; j++)
				data[j] = kind == 0 ? 0 : (uint8_t)(j * 151 + bytes);
			if (kind == 2) {
				memcpy(data, &honest, sizeof honest);
				data[7] = 255; /* a length beyond the end */
			}
			expect_refusal(data, bytes);
		}
	}
	puts("REFUSED");
}

/* Limits that are none, and another version. */
static void handshakes(void)
{
	struct request wrong[] = {honest, honest, honest, honest, honest};
	wrong[0].receives = 0;
	wrong[1].longest = 0x80000000;
	wrong[2].eager = 0;
	wrong[3].channel_version = 2;
	wrong[4].length = 19;
	for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
		expect_refusal(&wrong[i], sizeof *wrong);
	puts("REFUSED");
}

/*
 * Many requests at once, and none is ever established. The server accepts as many as it may have
 * channels, far fewer than a tenth.
 */
static void flood(void)
{
	struct rdma_event_channel *answers =
		check_pointer(rdma_create_event_channel(), "rdma_create_event_channel");
	struct rdma_conn_param request = parameters(&honest, sizeof honest);
	uint64_t accepted = 0, answered = 0;
	for (uint64_t i = 0; i < where.count; i++) {
		request.qp_num = 0x1000 + (uint32_t)i; /* of no queue pair */
		id = resolve(events, &where);
		check(rdma_migrate_id(id, answers), "rdma_migrate_id");
		check(rdma_connect(id, &request), "rdma_connect");
		/* At most 50 wait for an answer; none at the end. */
		while (answered + (i + 1 < where.count ? 50 : 1) <= i + 1) {
			struct rdma_cm_event *event = next_event(answers);
			struct rdma_cm_id *of = event->id;
			int rejected = event->event == RDMA_CM_EVENT_REJECTED;
			check(rdma_ack_cm_event(event), "rdma_ack_cm_event");
			answered++;
			accepted += !rejected;
			if (rejected)
				rdma_destroy_id(of); /* the accepted ones stay half open */
		}
	}
	if (accepted * 10 > where.count)
		fail("%lu of %lu requests were accepted", (unsigned long)accepted,
		     (unsigned long)where.count);
	printf("all but %lu of %lu\nREFUSED\n", (unsigned long)accepted,
	       (unsigned long)where.count);
}

/* Requests that are accepted, and never established. */
static void half_open(void)
{
	struct rdma_conn_param request = parameters(&honest, sizeof honest);
	for (uint64_t i = 0; i < where.count; i++) {
		request.qp_num = 0x800000 + (uint32_t)i; /* of no queue pair */
		id = resolve(events, &where);
		check(rdma_connect(id, &request), "rdma_connect");
		expect(events, RDMA_CM_EVENT_CONNECT_RESPONSE);
	}
	puts("LEFT");
}

/* ---- attacks by messages */

static void wrong_frames(const char *which)
{
	connect_with(DEPTH);
	if (!strcmp(which, "oversized"))
		post_frame(MESSAGE, 60000, 0, 60016);
	else if (!strcmp(which, "longest"))
		post_frame(MESSAGE, 0x7fffffff, 0, 16);
	else if (!strcmp(which, "short"))
		post_frame(MESSAGE, 0, 0, 15);
	else if (!strcmp(which, "empty"))
		post(IBV_WR_SEND, 0, 0, 0);
	else if (!strcmp(which, "kind"))
		post_frame(77, 0, 0, 16);
	else if (!strcmp(which, "credit"))
		post_frame(CREDIT, 0, 1000, 16);
	else if (!strcmp(which, "offer"))
		post_frame(OFFER, 16, 0, 32);
	else if (!strcmp(which, "written"))
		post_frame(WRITTEN, 0, 0, 16);
	else if (!strcmp(which, "immediate"))
		post(IBV_WR_SEND_WITH_IMM, 16, 0, 0);
	else
		fail("%s: there is no such frame", which);
	must_end();
}

/* More messages than the server has receives for, and no credit is waited for. */
static void too_many(int kind)
{
	connect_with(DEPTH);
	for (int i = 0; i < DEPTH; i++)
		post_frame(kind, kind == LARGE ? 60000 : 1000, 0, kind == LARGE ? 16 : 1016);
	must_end();
}

/*
 * Access to memory by a key: stale, or another channel's. Atomics at odd addresses are not among
 * them: rxe's own library refuses to post them.
 */
static void reach(enum ibv_wr_opcode opcode)
{
	connect_with(DEPTH);
	struct frame *frame = (struct frame *)buffer;
	*frame = (struct frame){MESSAGE, 1, 0, 0, 0, 0, 0};
	post(opcode, opcode == IBV_WR_ATOMIC_FETCH_AND_ADD ? 8 : 16, remote_address, remote_key);
	must_end();
}

/* Waits for a frame; what was posted before must not have failed. */
static struct frame *next_frame(void)
{
	struct ibv_wc completion;
	do {
		while (ibv_poll_cq(queue, 1, &completion) == 0)
			;
		if (completion.status != IBV_WC_SUCCESS)
			fail("%s", ibv_wc_status_str(completion.status));
	} while (completion.opcode != IBV_WC_RECV);
	return (struct frame *)completion.wr_id;
}

/*
 * Gets a key of its own in a message, and uses it; answers that it will use it no more when it is
 * asked back, and uses it after the next message.
 */
static void revoked(void)
{
	struct frame *frame;
	connect_with(DEPTH);
	frame = next_frame();
	memcpy(&remote_address, frame + 1, 8); /* a RemoteMemory */
	memcpy(&remote_key, (uint8_t *)(frame + 1) + 16, 4);
	remote_address = be64toh(remote_address);
	remote_key = ntohl(remote_key);
	post(IBV_WR_RDMA_WRITE, 16, remote_address, remote_key);
	do {
		frame = next_frame();
		struct note *asked = (struct note *)((uint8_t *)(frame + 1) + frame->length);
		if (frame->notes && asked->kind == ASKED_BACK) {
			*(struct frame *)buffer = (struct frame){CREDIT, 1, 1, 0, 0, 0, 0};
			*(struct note *)(buffer + sizeof *frame) = (struct note){GIVEN_BACK, asked->key};
			post(IBV_WR_SEND, sizeof *frame + sizeof *asked, 0, 0);
		}
	} while (frame->kind != MESSAGE);
	post(IBV_WR_RDMA_WRITE, 16, remote_address, remote_key);
	must_end();
}

/* Asks for answers, and has no receives for them. */
static void deaf(void)
{
	connect_with(0);
	for (int i = 0; i < 8; i++)
		post_frame(MESSAGE, 1000, 0, 1016);
	must_end();
}

/* Takes answers, and never says so: the server may keep the messages that wait, and no more. */
static void slow(void)
{
	connect_with(DEPTH);
	for (int i = 0; i < 8; i++)
		post_frame(MESSAGE, 1000, 0, 1016);
	sleep(1);
	drain();
	rdma_disconnect(id);
	puts("LEFT");
}

/* Sends until it is killed: the process ends in the middle of it. */
static void vanish(void)
{
	connect_with(DEPTH);
	for (int i = 0; i < 8; i++)
		post_frame(MESSAGE, 1000, 0, 1016);
	puts("LEFT");
	fflush(stdout);
	_exit(0);
}

int main(int argc, char **argv)
{
	const char *attack;
	if (argc < 5)
		fail("usage: %s ATTACK ADDRESS PORT FROM [COUNT | REMOTE-ADDRESS KEY]", argv[0]);
	attack = argv[1];
	parse_address(argv[2], argv[3], &where.address);
	parse_address(argv[4], "0", &where.from);
	where.count = argc > 5 ? strtoull(argv[5], NULL, 0) : 1;
	remote_address = where.count;
	remote_key = argc > 6 ? (uint32_t)strtoul(argv[6], NULL, 0) : 0;
	events = check_pointer(rdma_create_event_channel(), "rdma_create_event_channel");
	if (!strcmp(attack, "private-data"))
		private_data();
	else if (!strcmp(attack, "handshakes"))
		handshakes();
	else if (!strcmp(attack, "flood"))
		flood();
	else if (!strcmp(attack, "half-open"))
		half_open();
	else if (!strcmp(attack, "messages"))
		too_many(MESSAGE);
	else if (!strcmp(attack, "announcements"))
		too_many(LARGE);
	else if (!strcmp(attack, "write"))
		reach(IBV_WR_RDMA_WRITE);
	else if (!strcmp(attack, "write-with-immediate"))
		reach(IBV_WR_RDMA_WRITE_WITH_IMM);
	else if (!strcmp(attack, "read"))
		reach(IBV_WR_RDMA_READ);
	else if (!strcmp(attack, "atomic"))
		reach(IBV_WR_ATOMIC_FETCH_AND_ADD);
	else if (!strcmp(attack, "invalidate"))
		reach(IBV_WR_SEND_WITH_INV);
	else if (!strcmp(attack, "revoked"))
		revoked();
	else if (!strcmp(attack, "deaf"))
		deaf();
	else if (!strcmp(attack, "slow"))
		slow();
	else if (!strcmp(attack, "vanish"))
		vanish();
	else
		wrong_frames(attack);
	return 0;
}

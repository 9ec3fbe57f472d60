/* Connections over librdmacm, for the programs that need one. Every wait has a deadline. */
#ifndef VERBENA_BENCH_CM_H
#define VERBENA_BENCH_CM_H

#include "common.h"

#include <netdb.h>
#include <poll.h>
#include <rdma/rdma_cma.h>
#include <stdbool.h>

#define DEADLINE_MS 60000

struct options {
	bool server;
	struct sockaddr_storage address; /* of the server */
	struct sockaddr_storage from;    /* family 0: by the route */
	uint64_t count;
	uint64_t warmup;
	uint64_t rounds;
	bool blocking; /* events only */
};

static inline void parse_address(const char *text, const char *port, struct sockaddr_storage *to)
{
	struct addrinfo hints = {.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV,
				 .ai_socktype = SOCK_STREAM};
	struct addrinfo *found;
	int error = getaddrinfo(text, port, &hints, &found);
	if (error)
		fail("%s port %s: %s", text, port, gai_strerror(error));
	memcpy(to, found->ai_addr, found->ai_addrlen);
	freeaddrinfo(found);
}

static inline struct options parse(int argc, char **argv, struct options options)
{
	const char *port = "7174", *from = NULL;
	if (argc < 3 || (strcmp(argv[1], "server") && strcmp(argv[1], "client")))
		fail("usage: %s server|client ADDRESS [--from ADDRESS] [--port N] [--count N] "
		     "[--warmup N] [--rounds N]; both sides with the same numbers",
		     argv[0]);
	options.server = !strcmp(argv[1], "server");
	for (int i = 3; i < argc; i++) {
		if (!strcmp(argv[i], "--blocking")) {
			options.blocking = true;
			continue;
		}
		if (i + 1 == argc)
			fail("%s: there is no such option, or it needs a value", argv[i]);
		if (!strcmp(argv[i], "--from"))
			from = argv[i + 1];
		else if (!strcmp(argv[i], "--port"))
			port = argv[i + 1];
		else if (!strcmp(argv[i], "--count"))
			options.count = number(argv[i], argv[i + 1]);
		else if (!strcmp(argv[i], "--warmup"))
			options.warmup = number(argv[i], argv[i + 1]);
		else if (!strcmp(argv[i], "--rounds"))
			options.rounds = number(argv[i], argv[i + 1]);
		else
			fail("%s: there is no such option", argv[i]);
		i++;
	}
	parse_address(argv[2], port, &options.address);
	if (from)
		parse_address(from, "0", &options.from);
	return options;
}

static inline void await_readable(int descriptor, const char *what)
{
	struct pollfd waited = {.fd = descriptor, .events = POLLIN};
	int ready;
	do {
		ready = poll(&waited, 1, DEADLINE_MS);
	} while (ready < 0 && errno == EINTR);
	if (ready < 0)
		fail("poll: %s", strerror(errno));
	if (ready == 0)
		fail("No %s within %d s", what, DEADLINE_MS / 1000);
}

/* The next event, to be acknowledged by the caller. */
static inline struct rdma_cm_event *next_event(struct rdma_event_channel *channel)
{
	struct rdma_cm_event *event;
	await_readable(channel->fd, "event of a connection");
	check(rdma_get_cm_event(channel, &event), "rdma_get_cm_event");
	return event;
}

static inline void expect(struct rdma_event_channel *channel, enum rdma_cm_event_type type)
{
	struct rdma_cm_event *event = next_event(channel);
	if (event->event != type)
		fail("%s (status %d) instead of %s", rdma_event_str(event->event), event->status,
		     rdma_event_str(type));
	check(rdma_ack_cm_event(event), "rdma_ack_cm_event");
}

/* An id whose device is known: the way of a client up to where a queue pair can be made. */
static inline struct rdma_cm_id *resolve(struct rdma_event_channel *channel,
					 struct options *options)
{
	struct rdma_cm_id *id;
	check(rdma_create_id(channel, &id, NULL, RDMA_PS_TCP), "rdma_create_id");
	check(rdma_resolve_addr(
		      id, options->from.ss_family ? (struct sockaddr *)&options->from : NULL,
		      (struct sockaddr *)&options->address, DEADLINE_MS),
	      "rdma_resolve_addr");
	expect(channel, RDMA_CM_EVENT_ADDR_RESOLVED);
	check(rdma_resolve_route(id, DEADLINE_MS), "rdma_resolve_route");
	expect(channel, RDMA_CM_EVENT_ROUTE_RESOLVED);
	return id;
}

static inline struct rdma_cm_id *listen_on(struct rdma_event_channel *channel,
					   struct options *options)
{
	struct rdma_cm_id *id;
	check(rdma_create_id(channel, &id, NULL, RDMA_PS_TCP), "rdma_create_id");
	check(rdma_bind_addr(id, (struct sockaddr *)&options->address), "rdma_bind_addr");
	check(rdma_listen(id, 128), "rdma_listen");
	puts("LISTENING");
	fflush(stdout);
	return id;
}

static const struct rdma_conn_param connection = {
	.responder_resources = 1,
	.initiator_depth = 1,
	.retry_count = 6,
	.rnr_retry_count = 7,
};

#endif

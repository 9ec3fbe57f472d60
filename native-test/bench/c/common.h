/* What the programs of this folder share: the clock, the way they end, and how they report. */
#ifndef VERBENA_BENCH_COMMON_H
#define VERBENA_BENCH_COMMON_H

#include <errno.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* What a program writes or reads for each request begins at one: else the chance of its place counts. */
#define CACHE_LINE 64

/* CLOCK_THREAD_CPUTIME_ID where other work shares the processors. */
static clockid_t measured = CLOCK_MONOTONIC;

static inline uint64_t now(void) /* ns */
{
	struct timespec t;
	clock_gettime(measured, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

__attribute__((format(printf, 1, 2), noreturn)) static inline void fail(const char *format, ...)
{
	va_list arguments;
	fflush(stdout);
	va_start(arguments, format);
	vfprintf(stderr, format, arguments);
	va_end(arguments);
	fputc('\n', stderr);
	exit(1);
}

/* For calls that answer 0, or -1 and set errno. */
static inline void check(int answer, const char *call)
{
	if (answer)
		fail("%s: %s", call, strerror(answer > 0 ? answer : errno));
}

static inline void *check_pointer(void *answer, const char *call)
{
	if (!answer)
		fail("%s: %s", call, strerror(errno));
	return answer;
}

__attribute__((format(printf, 2, 5))) static inline void
result(const char *measure, const char *parameter, double value, const char *unit, ...)
{
	va_list arguments;
	printf("RESULT\t%s\t", measure);
	va_start(arguments, unit);
	vprintf(parameter, arguments);
	va_end(arguments);
	printf("\t%.2f\t%s\n", value, unit);
	fflush(stdout);
}

static inline int ascending(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
	return (x > y) - (x < y);
}

/* Sorts them. */
static inline double median(uint64_t *values, size_t count)
{
	qsort(values, count, sizeof *values, ascending);
	return count % 2 ? (double)values[count / 2]
			 : ((double)values[count / 2 - 1] + (double)values[count / 2]) / 2;
}

static inline double mean(const uint64_t *values, size_t count)
{
	double sum = 0;
	for (size_t i = 0; i < count; i++)
		sum += (double)values[i];
	return sum / (double)count;
}

/* A positive number from the command line. */
static inline uint64_t number(const char *option, const char *value)
{
	char *end;
	unsigned long long parsed;
	errno = 0;
	parsed = strtoull(value, &end, 10);
	if (errno || end == value || *end || parsed == 0 || *value == '-')
		fail("%s takes a positive number, not \"%s\"", option, value);
	return parsed;
}

#endif

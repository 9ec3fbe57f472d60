/* What the two stand-ins share: memory that is counted, so that a program that measures its own can leave it out. */
#ifndef VERBENA_BENCH_STAND_IN_H
#define VERBENA_BENCH_STAND_IN_H

#include <stddef.h>

/* As calloc. */
void *stand_in_allocate(size_t count, size_t size);

/* As free. */
void stand_in_release(void *memory);

/* Bytes in use. */
size_t stand_in_allocated(void);

#endif

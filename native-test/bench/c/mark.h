/*
 * The instruction at which count.c looks at its counters: a no-op of x86-64 with an operand that no
 * compiler would choose.
 */
#ifndef VERBENA_BENCH_MARK_H
#define VERBENA_BENCH_MARK_H

#define MARK 0x0f, 0x1f, 0x84, 0x00, 'M', 'A', 'R', 'K'

#endif

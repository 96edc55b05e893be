/* What a benchmark wants to know about the machine and cera.h does not tell: Linux's /proc, where
 * there is one. */
#ifndef MACHINE_H
#define MACHINE_H

#include <stdbool.h>
#include <stddef.h>

/* The processor's name, or "unknown". */
void machine_cpu_name(char *out, size_t size);

/* Watches for 200 ms while the caller does nothing: how many processors' worth of time others took
 * (*busy), and how many processors there are. False where that cannot be found out. */
bool machine_load(double *busy, int *n_cpus);

#endif

#ifndef CPU_TEXT_H
#define CPU_TEXT_H

#include "cera.h"
#include "common/bytes.h"

/* The two lines of `cera cpu`, which inspect shows too. */
void cpu_text(const cera_cpu_info *cpu, bytes *out);

#endif

#ifndef CPU_TEXT_H
#define CPU_TEXT_H

#include "cera.h"
#include "cli/options.h"
#include "common/bytes.h"

/* The two lines of `cera cpu`, which inspect shows too; of the tiers, the one that will be used. */
void cpu_text(const cli_args *args, const cera_cpu_info *cpu, bytes *out);

#endif

/* Architectures: what each file here exports, and how to find one by name. */
#ifndef CR_ARCH_H
#define CR_ARCH_H

#include "model/block.h"
#include "model/keys.h"

#define ARCH(symbol) extern const cr_arch symbol;
#include "arch/arch.def"
#undef ARCH

/* The architecture with that general.architecture, or NULL. */
const cr_arch *cr_arch_find(cr_str name);

#endif

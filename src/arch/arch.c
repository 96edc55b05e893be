/* The list of architectures. */
#include "arch/arch.h"

const cr_arch *cr_arch_find(cr_str name)
{
    static const cr_arch *const all[] = {
#define ARCH(symbol) &symbol,
#include "arch/arch.def"
#undef ARCH
    };
    for (size_t i = 0; i < CR_COUNT(all); i++) {
        if (cr_str_is(name, all[i]->name))
            return all[i];
    }
    return NULL;
}

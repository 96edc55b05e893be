/* The bytes of models/tiny.gguf as read-only data; builtin.h declares the symbols. An assembler
 * file, because .incbin takes milliseconds where a C array of two million numbers takes seconds. */

#ifdef __APPLE__
#define SYMBOL(name) _##name
#define HIDDEN .private_extern
    .section __TEXT,__const
#elif defined(__wasm__)
#define SYMBOL(name) name
#define HIDDEN .hidden
    .section .rodata.cr_builtin_tiny,"",@
    .type SYMBOL(cr_builtin_tiny),@object
    .type SYMBOL(cr_builtin_tiny_end),@object
#else
#define SYMBOL(name) name
#define HIDDEN .hidden
    .section .rodata
#endif

    .globl SYMBOL(cr_builtin_tiny)
    .globl SYMBOL(cr_builtin_tiny_end)
    HIDDEN SYMBOL(cr_builtin_tiny)
    HIDDEN SYMBOL(cr_builtin_tiny_end)
    .balign 64
SYMBOL(cr_builtin_tiny):
    .incbin "tiny.gguf"
SYMBOL(cr_builtin_tiny_end):
    /* A byte of its own, so that the end symbol lies inside this section. */
    .byte 0
#ifdef __wasm__
    .size SYMBOL(cr_builtin_tiny), SYMBOL(cr_builtin_tiny_end) - SYMBOL(cr_builtin_tiny)
    .size SYMBOL(cr_builtin_tiny_end), 1
#endif

#ifdef __ELF__
    .section .note.GNU-stack, "", %progbits
#endif
/* Marks the object as compatible with control-flow enforcement, as the compiler does for C. */
#if defined(__CET__) && defined(__has_include)
#if __has_include(<cet.h>)
#include <cet.h>
#endif
#endif

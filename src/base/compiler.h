/* The only place for what is not C11: attributes and hints. */
#ifndef CR_COMPILER_H
#define CR_COMPILER_H

#if defined(__GNUC__)
#define CR_PRINTF(fmt, first) __attribute__((format(printf, fmt, first)))
#define CR_UNLIKELY(x) __builtin_expect(!!(x), 0)
#define CR_PREFETCH(ptr) __builtin_prefetch(ptr)
#define CR_PREFETCH_L2(ptr) __builtin_prefetch(ptr, 0, 2)
/* Parts of kernels. With AddressSanitizer they stay functions, and loops loops: written out with a
 * check at each access, one file of kernels would take minutes to compile. */
#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define CR_CHECKED 1
#endif
#endif
#ifdef CR_CHECKED
#define CR_INLINE static inline
#else
#define CR_INLINE static inline __attribute__((always_inline))
#endif
#else
#define CR_PRINTF(fmt, first)
#define CR_UNLIKELY(x) (x)
#define CR_PREFETCH(ptr) ((void)(ptr))
#define CR_PREFETCH_L2(ptr) ((void)(ptr))
#define CR_INLINE static inline
#endif

/* Before a loop of at most 16 steps that a kernel wants written out, so that arrays become
 * registers. */
#if defined(CR_CHECKED)
#define CR_UNROLL
#elif defined(__clang__)
#define CR_UNROLL _Pragma("clang loop unroll(full)")
#elif defined(__GNUC__)
#define CR_UNROLL _Pragma("GCC unroll 16")
#else
#define CR_UNROLL
#endif

/* The vector v as it is, which compilers know nothing about: they like to add up a long sum in
 * pairs, and then to keep all of its terms on the stack. */
#if defined(__x86_64__)
#define CR_IN_ORDER(v) __asm__("" : "+x"(v))
#endif

/* Tells the processor that this is a spin loop. */
#if defined(__x86_64__) || defined(__i386__)
#define CR_PAUSE() __builtin_ia32_pause()
#elif defined(__aarch64__)
#define CR_PAUSE() __asm__ volatile("yield")
#else
#define CR_PAUSE() ((void)0)
#endif

/* In front of a variable: it stays unset where builds clear all others. */
#if defined(__has_attribute)
#if __has_attribute(uninitialized)
#define CR_UNSET __attribute__((uninitialized))
#endif
#endif
#ifndef CR_UNSET
#define CR_UNSET
#endif

#define CR_COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define CR_MIN(a, b) ((a) < (b) ? (a) : (b))
#define CR_MAX(a, b) ((a) > (b) ? (a) : (b))

#endif

/* How functions are compiled. */
#ifndef MACHINES_H
#define MACHINES_H

/* Compiled for several generations of processors, of which the loader takes the newest that is there; or for one alone,
 * where the command line says that this is nothing. */
#ifdef EACH_MACHINE
#elif defined(__x86_64__) && defined(__linux__) && defined(__GNUC__) && !defined(__clang__)
#define EACH_MACHINE __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define EACH_MACHINE
#endif
#define INLINE static inline __attribute__((always_inline))

#endif

/* count_malloc.h - what watch.c and count_malloc.c say to each other, as prctl calls that the kernel
 * refuses and the tracer sees. */
#ifndef MK_TESTS_COUNT_MALLOC_H
#define MK_TESTS_COUNT_MALLOC_H

#define COUNT_MALLOC_FLAG 0x6d6b0001u   /* second argument: where the tracer sets a long to 1 */
#define COUNT_MALLOC_CALLED 0x6d6b0002u /* an allocation while it was set */

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* What the module `faults` can be told to do, by its one input. */
#ifndef C7X_TESTS_SUPPORT_FAULTS_H
#define C7X_TESTS_SUPPORT_FAULTS_H

enum {
    FAULT_NONE,
    FAULT_READ,
    FAULT_WRITE,
    FAULT_TEXT, /* a write to its own code */
    FAULT_JUMP,
    FAULT_ILLEGAL,
    FAULT_DIVISION, /* of integers, by zero */
    FAULT_STACK,    /* endless recursion */
    FAULT_EXPORT,   /* memset to where nothing is */
    FAULT_PRINTF,   /* of a bad pointer */
    FAULT_LOOP,
    FAULT_PRINTING_LOOP,
    FAULT_ABORT,
    FAULT_RETURN, /* not 0 */
    FAULT_COUNT,
    /* Of the heap: faults only where it is guarded; each steps over the end by as little as the
     * alignment allows to be seen. */
    FAULT_HEAP_MALLOC = 50, /* writes byte 112 of 100 bytes */
    FAULT_HEAP_ALLOC,       /* reads byte 4032 of 4000 bytes at a multiple of 64 */
    FAULT_HEAP_PAGES,       /* writes byte 8192 of 8192 bytes at a multiple of 8192 */
    FAULT_HEAP_WORKSPACE,   /* writes byte 1024 of 1000 */
    FAULT_HEAP_STORAGE,     /* writes byte 512 of 500 bytes of the fast pool */
    FAULT_HEAP_EXPORT,      /* memset of 640 bytes where there are 600 */
    FAULT_HEAP_FITS,        /* no fault: uses blocks to their end and frees them */
    FAULT_HEAP_FREES,       /* no fault: frees what is no block, or not any more */
    FAULT_CORE = 60,        /* a bad pointer for code of the firmware that may hold anything */
    FAULT_CLEAN_UP,         /* not now: its clean-up never returns */
    FAULT_IN_SECTION = 100  /* added: inside a critical section */
};

#endif

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
    FAULT_IN_SECTION = 100 /* added: inside a critical section */
};

#endif

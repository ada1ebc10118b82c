/* SPDX-License-Identifier: Apache-2.0 */
/* What the module `regions` can be told to do in its parallel regions, by its one input. */
#ifndef C7X_TESTS_SUPPORT_REGIONS_H
#define C7X_TESTS_SUPPORT_REGIONS_H

/* The input: what, in which task of as many as there are threads, which all wait for one another so
 * that each is on a thread of its own; and how many tasks others have (REGION_SUM). */
enum { REGION_WHAT, REGION_TASK, REGION_TASKS, REGION_INPUTS };

#define REGION_EACH_TASK (-1)
#define REGION_COUNT 300 /* of REGION_SUM */

enum {
    REGION_SUM, /* REGION_COUNT regions before that one; the output is how many tasks have run */
    REGION_READ,
    REGION_DIVISION, /* of integers, by zero */
    REGION_STACK,    /* endless recursion */
    REGION_EXPORT,   /* memset to where nothing is */
    REGION_ABORT,
    REGION_LOOP,
    REGION_PRINTING_LOOP,
    REGION_RETURN, /* 7 */
    REGION_PRINT,  /* says which task it is */
    REGION_WORKSPACE,
    REGION_HOLD /* for a tenth of a second */
};

#endif

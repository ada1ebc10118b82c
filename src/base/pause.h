/* SPDX-License-Identifier: Apache-2.0 */
#ifndef C7X_BASE_PAUSE_H
#define C7X_BASE_PAUSE_H

/* Between two looks of who waits for another processor to write something. */
static inline void c7x_pause(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* POSIX port: the structs that os/os.h leaves to the port. */
#ifndef C7X_OS_PORT_H
#define C7X_OS_PORT_H

#include <pthread.h>
#include <stdbool.h>

struct c7x_os_mutex {
    pthread_mutex_t mutex;
};

struct c7x_os_event {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    bool set;
};

struct c7x_os_task {
    pthread_t thread;
    void (*run)(void *context);
    void *context;
};

#endif

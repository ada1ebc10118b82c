/* SPDX-License-Identifier: Apache-2.0 */
/* POSIX port: the structs that os/os.h leaves to the port. */
#ifndef C7X_OS_PORT_H
#define C7X_OS_PORT_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

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

/*
 * What the cache operations do here: nothing, since host and emulated core share coherent memory,
 * unless an emulator with strict caches says otherwise. Set once, before there are tasks.
 */
struct c7x_os_cache_hooks {
    void (*writeback)(const void *address, size_t size);
    void (*invalidate)(void *address, size_t size);
};
void c7x_os_port_set_cache_hooks(const struct c7x_os_cache_hooks *hooks);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Text that modules print, out of the session's printf buffer (docs/protocol.md, "Inference"). */
#include "client_impl.h"

#include <stdio.h>

#define PRINTF_HEADER_BYTES 16u

void c7x_client_pass_printed(struct c7x_client *client, uint32_t size)
{
    if (size == 0 || client->printf.pointer == NULL)
        return;
    pthread_mutex_lock(&client->print_lock);
    size_t room = client->printf.size - PRINTF_HEADER_BYTES;
    const char *text = (const char *)client->printf.pointer + PRINTF_HEADER_BYTES;
    size_t count = size < room ? size : room;
    client->link->ops->sync_from_device(client->link, &client->printf, 0, client->printf.size);
    if (client->options.print != NULL)
        client->options.print(client->options.print_context, text, count);
    else
        fwrite(text, 1, count, stderr);
    pthread_mutex_unlock(&client->print_lock);
}

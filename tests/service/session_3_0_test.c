/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A whole session of a client of version 3.0, frozen byte by byte in session_3_0.hex, against the
 * emulator with the memory of a board. A line of that file is one of
 *
 *   attach BYTES ADDRESS     a shared buffer of so many bytes, which must come to lie there
 *   module NAME ADDRESS      the file of a test module is put there
 *   put ADDRESS BYTES        these bytes are
 *   > BYTES                  a request; "size" stands for the size of the last module, as u32
 *   < BYTES                  the whole of its reply; ".." is any byte
 *   see ADDRESS BYTES        these bytes stand there
 *
 * Addresses and bytes are hex, two digits a byte, BYTES of attach too; # begins a comment.
 */
#include "service/steps.h"
#include "support/device_kind.h"

#include <ctype.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define SCRIPT "tests/service/session_3_0.hex"
#define BUFFERS_MAX 8
#define LINE_MAX_BYTES 4096

static struct c7x_host_link *link;
static struct c7x_buffer buffers[BUFFERS_MAX];
static int buffer_count;
static uint32_t module_size;
static int line_number;

struct bytes {
    size_t count;
    uint8_t values[C7X_TRANSPORT_FRAME_MAX];
    bool is_any[C7X_TRANSPORT_FRAME_MAX];
};

static void append_size(struct bytes *out)
{
    wire_u32 size = wire_u32_put(module_size);
    memcpy(out->values + out->count, &size, sizeof size);
    out->count += sizeof size;
}

static void read_bytes(const char *at, struct bytes *out)
{
    memset(out, 0, sizeof *out);
    while (*at != '\0') {
        unsigned value = 0;
        assert_true(out->count + 4 <= sizeof out->values);
        if (isspace((unsigned char)*at)) {
            at++;
        } else if (strncmp(at, "size", 4) == 0) {
            append_size(out);
            at += 4;
        } else {
            out->is_any[out->count] = strncmp(at, "..", 2) == 0;
            if (!out->is_any[out->count] && sscanf(at, "%2x", &value) != 1)
                fail_msg("%s:%d: not hex: %s", SCRIPT, line_number, at);
            out->values[out->count++] = (uint8_t)value;
            at += 2;
        }
    }
}

/* The buffer that holds the range, and the place in it. */
static struct c7x_buffer *find(uint64_t address, size_t size, size_t *out_offset)
{
    for (int i = 0; i < buffer_count; i++) {
        if (address < buffers[i].dsp_address ||
            address - buffers[i].dsp_address + size > buffers[i].size)
            continue;
        *out_offset = (size_t)(address - buffers[i].dsp_address);
        return &buffers[i];
    }
    fail_msg("%s:%d: no buffer at 0x%llx", SCRIPT, line_number, (unsigned long long)address);
    return NULL;
}

static void attach(uint64_t size, uint64_t address)
{
    assert_true(buffer_count < BUFFERS_MAX);
    buffers[buffer_count] = c7x_test_attach(link, (size_t)size);
    assert_true(buffers[buffer_count].dsp_address == address);
    buffer_count++;
}

static void put_module(const char *name, uint64_t address)
{
    size_t offset;
    struct c7x_buffer *buffer = find(address, 1, &offset);
    module_size =
        c7x_steps_read_module(name, (uint8_t *)buffer->pointer + offset, buffer->size - offset);
    link->ops->sync_to_device(link, buffer, offset, module_size);
}

static void put(uint64_t address, const struct bytes *bytes)
{
    size_t offset;
    struct c7x_buffer *buffer = find(address, bytes->count, &offset);
    memcpy((uint8_t *)buffer->pointer + offset, bytes->values, bytes->count);
    link->ops->sync_to_device(link, buffer, offset, bytes->count);
}

static void compare(const struct bytes *expected, const uint8_t *got)
{
    for (size_t i = 0; i < expected->count; i++)
        if (!expected->is_any[i] && got[i] != expected->values[i])
            fail_msg("%s:%d: byte %zu is %02x, expected %02x", SCRIPT, line_number, i, got[i],
                     expected->values[i]);
}

static void see(uint64_t address, const struct bytes *bytes)
{
    size_t offset;
    struct c7x_buffer *buffer = find(address, bytes->count, &offset);
    link->ops->sync_from_device(link, buffer, offset, bytes->count);
    compare(bytes, (const uint8_t *)buffer->pointer + offset);
}

static void expect(const struct bytes *bytes)
{
    struct c7x_test_reply reply;
    c7x_test_receive(link, &reply);
    if (reply.size != bytes->count)
        fail_msg("%s:%d: %zu bytes, expected %zu", SCRIPT, line_number, reply.size, bytes->count);
    compare(bytes, reply.bytes);
}

static void run_line(char *line)
{
    struct bytes bytes;
    char word[16] = "";
    char name[32];
    unsigned long long first = 0;
    unsigned long long second = 0;
    int at = 0;
    line[strcspn(line, "#\n")] = '\0';
    if (sscanf(line, "%15s %n", word, &at) != 1)
        return;
    if (sscanf(line, "attach %llx %llx", &first, &second) == 2) {
        attach(first, second);
    } else if (sscanf(line, "module %31s %llx", name, &first) == 2) {
        put_module(name, first);
    } else if (strcmp(word, ">") == 0) {
        read_bytes(line + at, &bytes);
        c7x_test_send(link, bytes.values, bytes.count);
    } else if (strcmp(word, "<") == 0) {
        read_bytes(line + at, &bytes);
        expect(&bytes);
    } else if (sscanf(line, "%*s %llx %n", &first, &at) == 1 && strcmp(word, "put") == 0) {
        read_bytes(line + at, &bytes);
        put(first, &bytes);
    } else if (strcmp(word, "see") == 0) {
        read_bytes(line + at, &bytes);
        see(first, &bytes);
    } else {
        fail_msg("%s:%d: what is %s?", SCRIPT, line_number, word);
    }
}

static void a_frozen_session_is_answered_byte_for_byte(void **state)
{
    (void)state;
    struct c7x_test_device *device = c7x_test_kind_private_emulator.start();
    static char line[LINE_MAX_BYTES];
    link = c7x_test_kind_private_emulator.connect(device);
    FILE *script = fopen(SCRIPT, "r");
    assert_non_null(script);
    while (fgets(line, sizeof line, script) != NULL) {
        line_number++;
        run_line(line);
    }
    fclose(script);
    assert_true(line_number > 50);
    link->ops->close(link);
    c7x_test_kind_private_emulator.stop(device);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_frozen_session_is_answered_byte_for_byte),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

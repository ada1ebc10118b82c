/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes as a frame: a request of either version, and the response to a request of any type. What is
 * decoded is encoded again. */
#include "fuzz.h"
#include "wire/wire.h"

#include <stdlib.h>
#include <string.h>

static void decode_request(const uint8_t *frame, size_t size, uint32_t version)
{
    struct c7x_request request;
    struct c7x_request again;
    struct c7x_error error;
    uint8_t encoded[C7X_WIRE_FRAME_MAX];
    bool header_only;
    if (c7x_wire_decode_request(frame, size, version, &request, &header_only, &error) != C7X_OK)
        return;
    size_t length = c7x_wire_encode_request(&request, encoded);
    if (length > sizeof(encoded) ||
        c7x_wire_decode_request(encoded, length, version, &again, &header_only, &error) != C7X_OK ||
        again.type != request.type || again.seq != request.seq)
        abort();
}

static void decode_response(const uint8_t *frame, size_t size, uint32_t type)
{
    struct c7x_response response;
    struct c7x_error error;
    uint8_t encoded[C7X_WIRE_FRAME_MAX];
    if (c7x_wire_decode_response(frame, size, type, &response, &error) != C7X_OK)
        return;
    if (c7x_wire_encode_response(&response, encoded) > sizeof(encoded))
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 1 || size - 1 > C7X_WIRE_FRAME_MAX)
        return 0;
    uint8_t *frame = malloc(size);
    size_t length = size - 1;
    memcpy(frame, data + 1, length);
    if (length >= C7X_WIRE_HEADER_SIZE) {
        decode_request(frame, length, 0x030000);
        decode_request(frame, length, 0x030100);
        decode_response(frame, length, data[0]);
    }
    free(frame);
    return 0;
}

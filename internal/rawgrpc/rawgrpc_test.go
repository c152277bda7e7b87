package rawgrpc

import (
	"bytes"
	"strings"
	"testing"

	"google.golang.org/grpc/mem"
)

func TestCodec(t *testing.T) {
	var c Codec
	for _, body := range []string{"", "x", strings.Repeat("long ", 10_000)} {
		data, err := c.Marshal(&Message{Body: []byte(body)})
		if err != nil || string(data.Materialize()) != body {
			t.Fatalf("%.10q: %v", body, err)
		}
		// The message may arrive in pieces.
		half := len(body) / 2
		pieces := mem.BufferSlice{mem.SliceBuffer(body[:half]), mem.SliceBuffer(body[half:])}
		var whole Message
		if err := c.Unmarshal(pieces, &whole); err != nil || !bytes.Equal(whole.Body, []byte(body)) || whole.Size != int64(len(body)) {
			t.Errorf("%.10q: %v, %d bytes", body, err, whole.Size)
		}
		size := Message{SizeOnly: true}
		if err := c.Unmarshal(pieces, &size); err != nil || size.Body != nil || size.Size != int64(len(body)) {
			t.Errorf("%.10q: %v, %+v", body, err, size)
		}
	}
	if _, err := c.Marshal([]byte("x")); err == nil || !strings.Contains(err.Error(), "[]uint8") {
		t.Errorf("a slice: %v", err)
	}
	if err := c.Unmarshal(nil, new([]byte)); err == nil {
		t.Error("a slice was taken")
	}
}

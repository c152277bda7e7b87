package wire

import (
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
)

// address returns an Address with a workload of these addresses and status.
func address(status uint64, ips ...string) []byte {
	var workload []byte
	workload = protowire.AppendString(protowire.AppendTag(workload, 1, protowire.BytesType), "pod")
	for _, ip := range ips {
		workload = protowire.AppendString(protowire.AppendTag(workload, workloadAddresses, protowire.BytesType), ip)
	}
	if status != 0 {
		workload = protowire.AppendVarint(protowire.AppendTag(workload, workloadStatus, protowire.VarintType), status)
	}
	return protowire.AppendBytes(protowire.AppendTag(nil, addressWorkload, protowire.BytesType), workload)
}

func TestHealthy(t *testing.T) {
	ip := "\x0a\x00\x00\x07"
	service := protowire.AppendString(protowire.AppendTag(nil, 2, protowire.BytesType), ip)
	for name, tt := range map[string]struct {
		body []byte
		want bool
	}{
		"it alone":         {address(0, ip), true},
		"one of two":       {address(0, "\x0a\x00\x00\x08", ip), true},
		"not ready":        {address(statusUnhealthy, ip), false},
		"another's":        {address(0, "\x0a\x00\x00\x08"), false},
		"only a beginning": {address(0, ip+"\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"), false},
		"a service":        {service, false},
		"nothing":          {nil, false},
	} {
		if got, err := Healthy(tt.body, []byte(ip)); got != tt.want || err != nil {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
	body := address(0, ip)
	if _, err := Healthy(body[:len(body)-2], []byte(ip)); err == nil {
		t.Error("a body cut short is no error")
	}
}

func FuzzHealthy(f *testing.F) {
	f.Add(address(statusUnhealthy, "\x0a\x00\x00\x07"), []byte("\x0a\x00\x00\x07"))
	f.Add([]byte{0x0a, 0x80}, []byte{})
	f.Fuzz(func(t *testing.T, body, address []byte) {
		_, _ = Healthy(body, address) // must neither panic nor loop forever
	})
}

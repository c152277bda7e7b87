package xds_test

import (
	"bytes"
	"context"
	"errors"
	"net"
	"strings"
	"testing"

	"github.com/meshtrial/meshtrial/advise/scope"
	"github.com/meshtrial/meshtrial/drive/xds"
	"github.com/meshtrial/meshtrial/internal/errs"
)

// A proxy is recorded over any kind of connection, such as one through the API server. Two
// recordings of one server do not differ.
func TestRecordOverOtherConnections(t *testing.T) {
	s := newFake(t)
	record := func() *bytes.Buffer {
		spec := testSpec("istiod.istio-system:15010", 1)
		spec.Dial = func(ctx context.Context, address string) (net.Conn, error) {
			if address != "istiod.istio-system:15010" {
				t.Errorf("dialled %s", address)
			}
			conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", s.address)
			return struct{ net.Conn }{conn}, err // not a TCP connection
		}
		var out bytes.Buffer
		held, err := xds.Record(t.Context(), spec, &out, nil)
		if err != nil || held.Name != "p-0.ns" || held.Bytes == 0 {
			t.Fatalf("%+v, %v", held, err)
		}
		return &out
	}
	got, err := scope.Compare(record(), record())
	if err != nil || got.Resources != 5 || got.Differing != 0 {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestRecordFails(t *testing.T) {
	if _, err := xds.Record(t.Context(), testSpec("127.0.0.1:1", 2), &bytes.Buffer{}, nil); errs.Code(err) != errs.CodeUsage {
		t.Errorf("two proxies: %v", err)
	}
	spec := testSpec("127.0.0.1:1", 1)
	ctx, cancel := context.WithCancel(t.Context())
	spec.Dial = func(context.Context, string) (net.Conn, error) {
		cancel()
		return nil, errors.New("no way there")
	}
	_, err := xds.Record(ctx, spec, &bytes.Buffer{}, nil)
	if err == nil || !strings.Contains(err.Error(), "interrupted before 127.0.0.1:1 had sent a configuration") {
		t.Errorf("nothing there: %v", err)
	}
}

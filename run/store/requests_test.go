package store

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/testing/must"
)

// What was compressed can be read back, only by its owner. Missing and damaged
// files yield different errors.
func TestRequests(t *testing.T) {
	d := create(t)
	text := strings.Repeat(`{"client":{"id":"mm-1"}}`+"\n", 5000)
	packer, err := zstd.NewWriter(nil)
	must.OK(t, err)
	packed := packer.EncodeAll([]byte(text), nil)
	name, err := d.WriteRequests("b000-t00", packed)
	if err != nil || name != "requests/b000-t00.jsonl.zst" {
		t.Fatal(name, err)
	}
	if info, err := os.Stat(filepath.Join(d.Path(), name)); err != nil || info.Mode() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	read := func(id string) (string, error) {
		r, err := OpenRequests(d.Path(), id)
		if err != nil {
			return "", err
		}
		defer r.Close()
		data, err := io.ReadAll(r)
		return string(data), err
	}
	if got, err := read("b000-t00"); err != nil || got != text {
		t.Errorf("%d bytes, %v", len(got), err)
	}
	if _, err := read("b000-t01"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a trial without requests: %v", err)
	}
	for _, spoil := range [][]byte{packed[:len(packed)/2], []byte("no archive")} {
		must.OK(t, d.WriteFile("requests/b000-t02.jsonl.zst", spoil))
		if _, err := read("b000-t02"); err == nil {
			t.Errorf("%d bytes of it are taken for all", len(spoil))
		}
	}
	for _, most := range []int64{int64(len(text)), int64(len(text)) - 1, 1} {
		unpacked, err := unpackRequests(bytes.NewReader(packed), most)
		must.OK(t, err)
		unpacked.path, unpacked.name, unpacked.file = d.Path(), "b000-t00.jsonl.zst", io.NopCloser(nil)
		got, err := io.ReadAll(unpacked)
		if string(got) != text[:most] {
			t.Errorf("%d bytes of the first %d, or others", len(got), most)
		}
		if most == int64(len(text)) {
			if err != nil {
				t.Errorf("as much as may be: %v", err)
			}
		} else if errs.Code(err) != errs.CodeUsage || errs.Hint(err) == "" || !strings.Contains(err.Error(), "b000-t00.jsonl.zst: it unpacks to more than") {
			t.Errorf("%d bytes at the most: %v, code %d", most, err, errs.Code(err))
		}
		if err := unpacked.Close(); err != nil {
			t.Error(err)
		}
	}
	for packed, want := range map[int64]int64{0: 8 << 30, 1 << 20: 8 << 30, 1 << 30: 100 << 30} {
		if got := mostUnpacked(packed); got != want {
			t.Errorf("a file of %d bytes may unpack to %d, want %d", packed, got, want)
		}
	}
	for _, id := range []string{"../x", "", "A"} {
		if _, err := d.WriteRequests(id, packed); err == nil {
			t.Errorf("trial %q can be stored", id)
		}
		if _, err := read(id); err == nil {
			t.Errorf("trial %q can be read", id)
		}
	}
}

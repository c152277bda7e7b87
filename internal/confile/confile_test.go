package confile_test

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/meshtrial/meshtrial/internal/confile"
	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/testing/must"
	"pgregory.net/rapid"
)

func read(r io.Reader) (confile.Header, []confile.Resource, error) {
	in, err := confile.NewReader(r)
	if err != nil {
		return confile.Header{}, nil, err
	}
	var out []confile.Resource
	for {
		one, err := in.Next()
		if err == io.EOF {
			return in.Header, out, nil
		}
		if err != nil {
			return in.Header, out, err
		}
		out = append(out, one)
	}
}

func TestWhatIsWrittenIsRead(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var file bytes.Buffer
		w, err := confile.NewWriter(&file, confile.Header{Proxy: rapid.String().Draw(t, "proxy"), Type: "sidecar", Proxies: 3})
		must.OK(t, err)
		var want []confile.Resource
		for range rapid.IntRange(0, 5).Draw(t, "resources") {
			r := confile.Resource{TypeURL: "t/a.B", Name: rapid.StringMatching(`[ -~]{0,20}`).Draw(t, "name"), Body: rapid.SliceOfN(rapid.Byte(), 0, 100_000).Draw(t, "body")}
			must.OK(t, w.Write(r))
			want = append(want, r)
		}
		whole := file.Bytes()
		if !confile.Is(whole) {
			t.Fatalf("not known for what it is: %.40s", whole)
		}
		h, got, err := read(bytes.NewReader(whole))
		if err != nil || h.Proxies != 3 || len(got) != len(want) {
			t.Fatalf("%+v, %d resources, %v", h, len(got), err)
		}
		for i, r := range got {
			if r.Name != want[i].Name || !bytes.Equal(r.Body, want[i].Body) {
				t.Fatalf("resource %d: %+v, want %+v", i, r, want[i])
			}
		}
		cut := rapid.IntRange(0, len(whole)-1).Draw(t, "cut")
		_, some, err := read(bytes.NewReader(whole[:cut]))
		atLine := cut > 0 && whole[cut-1] == '\n'
		if atLine != (err == nil) || err != nil && errs.Code(err) != errs.CodeUsage || len(some) > len(want) {
			t.Fatalf("cut at %d of %d: %d resources, %v", cut, len(whole), len(some), err)
		}
	})
}

func TestBadFiles(t *testing.T) {
	const head = `{"meshtrial_configuration":1,"proxy":"a.b","type":"sidecar"}` + "\n"
	for _, tt := range []struct{ name, file, want string }{
		{"empty", "", "it is empty"},
		{"a dump", `{"configs":[]}` + "\n", "does not begin with"},
		{"another version", strings.Replace(head, ":1", ":2", 1), "version 2"},
		{"no resource", head + "[]\n", "line 2"},
		{"no type", head + `{"name":"x"}` + "\n", "without a type"},
		{"cut", head + `{"type":"x"`, "cut short"},
	} {
		_, _, err := read(strings.NewReader(tt.file))
		if err == nil || !strings.Contains(err.Error(), tt.want) || errs.Code(err) != errs.CodeUsage || errs.Hint(err) == "" {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
}

// endless is a line without an end.
type endless struct{ read int }

func (e *endless) Read(b []byte) (int, error) {
	for i := range b {
		b[i] = '0'
	}
	e.read += len(b)
	return len(b), nil
}

func TestALineWithoutEnd(t *testing.T) {
	e := &endless{}
	if _, _, err := read(e); err == nil || !strings.Contains(err.Error(), "longer than") {
		t.Error(err)
	}
	if e.read > 2*confile.MaxLine {
		t.Errorf("%d bytes were read", e.read)
	}
}

func TestTheReadersOwnFailure(t *testing.T) {
	broken := errors.New("broken pipe")
	if _, _, err := read(io.MultiReader(strings.NewReader("{"), brokenReader{broken})); err == nil || !strings.Contains(err.Error(), "broken pipe") {
		t.Error(err)
	}
}

type brokenReader struct{ err error }

func (b brokenReader) Read([]byte) (int, error) { return 0, b.err }

func FuzzReader(f *testing.F) {
	f.Add([]byte(`{"meshtrial_configuration":1,"proxy":"a.b"}` + "\n" + `{"type":"t/a.B","name":"x","body":"AAE="}` + "\n"))
	f.Add([]byte("{\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		_, got, err := read(bytes.NewReader(data))
		if err == nil && len(got) > bytes.Count(data, []byte("\n")) {
			t.Errorf("%d resources of %q", len(got), data)
		}
	})
}

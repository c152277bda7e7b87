package ledger

import (
	"bytes"
	"errors"
	"reflect"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/testing/must"
)

// TestFile verifies that a book yields the same account after writing and
// reading.
func TestFile(t *testing.T) {
	b, _ := recorded(t, true)
	b.AddClient(ClientEntry{ID: "mm-unsent", SentNS: record.Never, DoneNS: record.Never, Outcome: OutcomeUnfinished})
	var file bytes.Buffer
	must.OK(t, b.Write(&file))
	text := file.String()
	if lines := strings.Count(text, "\n"); lines != 22+37+25+16+15 {
		t.Errorf("%d lines", lines)
	}
	again, err := Read(&file, b.options)
	must.OK(t, err)
	if x, y := b.Account(), again.Account(); !reflect.DeepEqual(x, y) {
		t.Errorf("%+v\n%+v", x, y)
	}
	for _, test := range []struct{ line, want string }{
		{"{", "line 2"}, {"{}", "of a client, a proxy or a worker"}, {`{"client":{"id":"mm-1"},"worker":{}}`, "of a client, a proxy or a worker"},
		{`{"client":{"di":"mm-1"}}`, "unknown field"}, {`{"proxy":{"side":"up"}}`, "no side"}, {strings.Repeat("x", 2*maxLine), "line 2"},
	} {
		part, err := Read(strings.NewReader(text[:strings.IndexByte(text, '\n')+1]+test.line+"\n"), b.options)
		if err == nil || !strings.Contains(err.Error(), test.want) || !strings.Contains(err.Error(), "line 2") {
			t.Errorf("%.40q: %v, want %s", test.line, err, test.want)
		}
		if clients, _, _ := part.Entries(); clients != 1 {
			t.Errorf("%.40q: the line before it is lost", test.line)
		}
	}
	if err := b.Write(writer{}); !errors.Is(err, errFull) {
		t.Errorf("a full disk: %v", err)
	}
	if _, err := Read(iotest.ErrReader(errFull), b.options); !errors.Is(err, errFull) {
		t.Errorf("a broken reader: %v", err)
	}
}

var errFull = errors.New("the disk is full")

type writer struct{}

func (writer) Write([]byte) (int, error) { return 0, errFull }

// FuzzRead verifies that any file is either read or rejected, and that what was
// read can be written and read again.
func FuzzRead(f *testing.F) {
	f.Add([]byte(`{"client":{"id":"mm-1","intended_ns":1,"sent_ns":2,"done_ns":3,"outcome":"ok","status":200}}` + "\n" + `{"worker":{"id":"mm-1","service":"bar","pod":"b","start_ns":1,"end_ns":2,"status":200,"ended":"answered"}}`))
	f.Add([]byte(`{"proxy":{"id":"mm-1","side":"server","service":"bar","pod":"b","start_ns":1,"duration_ns":1500,"status":503,"grpc":-1,"flags":"URX,UF","attempts":3}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		b, err := Read(bytes.NewReader(data), Options{Entry: "bar", Services: map[string]Station{"bar": {Sidecar: true}}})
		if err != nil {
			return
		}
		var file bytes.Buffer
		must.OK(t, b.Write(&file))
		again, err := Read(&file, b.options)
		must.OK(t, err)
		if x, y := b.Account(), again.Account(); !reflect.DeepEqual(x, y) {
			t.Fatalf("%+v\n%+v", x, y)
		}
	})
}

package bucket

import (
	"encoding/xml"
	"errors"
	"io"
	"io/fs"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/meshtrial/meshtrial/detached/detachedtest"
	"github.com/meshtrial/meshtrial/errs"
	"github.com/meshtrial/meshtrial/store"
)

func TestParse(t *testing.T) {
	for text, want := range map[string]string{
		"s3://runs": "runs|", "s3://runs/": "runs|", "s3://runs/mesh/istio": "runs|mesh/istio", "s3://a.b-c/x=1": "a.b-c|x=1",
		"": "", "runs": "", "s3://": "", "s3://R": "", "s3:/runs/a": "", "s3://runs//a": "", "s3://runs/../a": "", "s3://runs/a b": "", "s3://runs/a?b": "", "s3://b/p": "", "https://runs/a": "",
	} {
		name, prefix, err := Parse(text)
		if got := name + "|" + prefix; err == nil && got != want || (err == nil) != (want != "") || err != nil && (errs.Code(err) != errs.CodeUsage || !strings.Contains(errs.Hint(err), "name has 3 to 63 lower-case letters")) {
			t.Errorf("%q: %s, %v; want %q", text, got, err, want)
		}
	}
}

// keys makes the folder of a Secret.
func keys(t *testing.T, all map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for key, text := range all {
		if err := os.WriteFile(filepath.Join(dir, key), []byte(text+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestOpenRefuses(t *testing.T) {
	good := map[string]string{KeyEndpoint: "http://127.0.0.1:1", KeyAccess: "a", KeySecret: "s"}
	for name, c := range map[string]struct {
		key, text string // instead of the good one
		want      string
	}{
		"as it should be": {"", "", ""},
		"no endpoint":     {KeyEndpoint, "", "has no endpoint"},
		"no key":          {KeyAccess, "", "has no access-key"},
		"no secret":       {KeySecret, "", "has no secret-key"},
		"no address":      {KeyEndpoint, "127.0.0.1:9000", "is no address"},
		"with a password": {KeyEndpoint, "https://user:pa55word@host:9000", "is no address"},
		"and malformed":   {KeyEndpoint, "https://user:pa55word@host:x", "is no address"},
		"with a path":     {KeyEndpoint, "http://host/path", "is no address"},
		"no authority":    {KeyEndpoint, "https://host", "no certificates in ca.crt"},
	} {
		all := maps.Clone(good)
		if c.key != "" {
			all[c.key] = c.text
		}
		if _, err := Open(keys(t, all), "s3://runs/p", "r"); (err == nil) != (c.want == "") || err != nil && (errs.Code(err) != errs.CodeUsage || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "pa55word")) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

// fake is a store that keeps objects by key and refuses what refuse says.
type fake struct {
	mu      sync.Mutex
	objects map[string]string
	parts   map[string]string // keys of what is being sent in parts, by the uploads' names
	order   []string          // of what was written
	refuse  func(r *http.Request) (status int, code string)
	hang    func(r *http.Request) // before it looks at a request
}

func (f *fake) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if f.hang != nil {
		f.hang(r)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.refuse != nil {
		if status, code := f.refuse(r); status != 0 {
			w.WriteHeader(status)
			io.WriteString(w, "<Error><Code>"+code+"</Code><Message>no</Message></Error>")
			return
		}
	}
	key := strings.TrimPrefix(r.URL.Path, "/runs/")
	text, there := f.objects[key]
	query := r.URL.Query()
	upload := query.Get("uploadId")
	switch {
	case query.Has("uploads"):
		f.uploads(w, r, key)
	case upload != "" && r.Method == http.MethodPut:
		io.Copy(io.Discard, r.Body)
		w.Header().Set("ETag", `"e"`)
	case upload != "":
		delete(f.parts, upload)
		if r.Method == http.MethodDelete {
			w.WriteHeader(http.StatusNoContent)
			return
		}
		f.objects[key] = "sent in parts"
		io.WriteString(w, "<CompleteMultipartUploadResult><Bucket>runs</Bucket><ETag>e</ETag></CompleteMultipartUploadResult>")
	case r.Method == http.MethodPut:
		data, _ := io.ReadAll(r.Body)
		f.objects[key] = string(data)
		f.order = append(f.order, key)
		w.Header().Set("ETag", `"e"`)
	case r.Method == http.MethodDelete:
		delete(f.objects, key)
		w.WriteHeader(http.StatusNoContent)
	case r.URL.Query().Get("list-type") == "2":
		type object struct{ Key string }
		var list struct {
			XMLName  xml.Name `xml:"ListBucketResult"`
			Contents []object
		}
		for _, key := range slices.Sorted(maps.Keys(f.objects)) {
			if strings.HasPrefix(key, r.URL.Query().Get("prefix")) {
				list.Contents = append(list.Contents, object{key})
			}
		}
		xml.NewEncoder(w).Encode(list)
	case !there:
		w.WriteHeader(http.StatusNotFound)
	default:
		w.Header().Set("ETag", `"e"`)
		http.ServeContent(w, r, "", time.Unix(1, 0), strings.NewReader(text))
	}
}

// uploads begins to take a file in parts, or lists those that are being sent.
func (f *fake) uploads(w http.ResponseWriter, r *http.Request, key string) {
	if r.Method == http.MethodPost {
		f.parts["new"] = key
		io.WriteString(w, "<InitiateMultipartUploadResult><UploadId>new</UploadId></InitiateMultipartUploadResult>")
		return
	}
	type upload struct {
		Key      string
		UploadID string `xml:"UploadId"`
	}
	var list struct {
		XMLName xml.Name `xml:"ListMultipartUploadsResult"`
		Upload  []upload
	}
	for _, name := range slices.Sorted(maps.Keys(f.parts)) {
		if strings.HasPrefix(f.parts[name], r.URL.Query().Get("prefix")) {
			list.Upload = append(list.Upload, upload{f.parts[name], name})
		}
	}
	xml.NewEncoder(w).Encode(list)
}

func (f *fake) open(t *testing.T) *Bucket {
	t.Helper()
	server := httptest.NewServer(f)
	t.Cleanup(server.Close)
	b, err := Open(keys(t, map[string]string{KeyEndpoint: server.URL, KeyAccess: "a", KeySecret: "s", KeyRegion: "us-east-1"}), "s3://runs/mesh", "r1")
	if err != nil {
		t.Fatal(err)
	}
	b.patience, b.tryAgain = time.Minute, time.Millisecond
	return b
}

// A run's directory is in the bucket after each trial, what a trial's line speaks of before
// the line; what has not changed is not sent again; and what is there becomes the directory.
func TestMirror(t *testing.T) {
	f := &fake{objects: map[string]string{"mesh/other/trials.jsonl": "theirs"}}
	b, dir := f.open(t), filepath.Join(t.TempDir(), "r1")
	m, err := b.Mirror(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(dir); err == nil {
		t.Error("of an empty bucket a run directory was made")
	}
	run := map[string]string{store.FileTrials: "{}\n", store.FileEvents: "e\n", store.FileHeader: "{}", "hist/a.hlog": "#", "zz/late": ""}
	detachedtest.Write(t, dir, run)
	detachedtest.Write(t, dir, map[string]string{".tmp-machine.json-1": "half"})
	if err := m.Send(t.Context()); err != nil {
		t.Fatal(err)
	}
	want := []string{"mesh/r1/hist/a.hlog", "mesh/r1/zz/late", "mesh/r1/events.jsonl", "mesh/r1/trials.jsonl", "mesh/r1/machine.json"}
	if !slices.Equal(f.order, want) {
		t.Errorf("sent %v, want %v", f.order, want)
	}
	f.order = nil
	run[store.FileTrials], run["hist/b.hlog"] = "{}\n{}\n", "#"
	detachedtest.Write(t, dir, map[string]string{store.FileTrials: run[store.FileTrials], "hist/b.hlog": "#"})
	if err := m.Send(t.Context()); err != nil || !slices.Equal(f.order, []string{"mesh/r1/hist/b.hlog", "mesh/r1/trials.jsonl"}) {
		t.Errorf("the second time: %v, %v", f.order, err)
	}

	moved := filepath.Join(t.TempDir(), "r1")
	next, err := b.Mirror(t.Context(), moved)
	if got := detachedtest.Contents(t, moved); err != nil || !maps.Equal(got, run) {
		t.Errorf("on another node: %v, %v; want %v", got, err, run)
	}
	f.order = nil
	if err := next.Send(t.Context()); err != nil || len(f.order) > 0 {
		t.Errorf("what came from there is sent again: %v, %v", f.order, err)
	}
	n := 0
	if err := b.Remove(t.Context(), func() { n++ }); err != nil || n != len(run) || len(f.objects) != 1 {
		t.Errorf("removed %d, left %v, %v", n, f.objects, err)
	}
}

// What a try or a pod that was killed has sent in part is in no list of objects. It goes before
// a file is sent in parts again, and with the run; what other runs are sending stays.
func TestSentInPart(t *testing.T) {
	f := &fake{objects: map[string]string{}, parts: map[string]string{"killed": "mesh/r1/events.jsonl", "theirs": "mesh/r2/events.jsonl"}}
	b, dir := f.open(t), t.TempDir()
	detachedtest.Write(t, dir, map[string]string{store.FileEvents: strings.Repeat("e", inParts+1)})
	m := &Mirror{bucket: b, dir: dir, sent: map[string]stamp{}}
	left := map[string]string{"theirs": "mesh/r2/events.jsonl"}
	if err := m.Send(t.Context()); err != nil || f.objects["mesh/r1/events.jsonl"] != "sent in parts" || !maps.Equal(f.parts, left) {
		t.Errorf("sent again: %v; in parts there are %v", err, f.parts)
	}
	f.parts["killed"] = "mesh/r1/events.jsonl"
	if err := b.Remove(t.Context(), func() {}); err != nil || len(f.objects) > 0 || !maps.Equal(f.parts, left) {
		t.Errorf("removed: %v; there are %v, and in parts %v", err, f.objects, f.parts)
	}

	// Keys that may not list what is sent in parts can send, and nobody says that all is removed.
	f.refuse = func(r *http.Request) (int, string) {
		if r.Method == http.MethodGet && r.URL.Query().Has("uploads") {
			return http.StatusForbidden, "AccessDenied"
		}
		return 0, ""
	}
	m.sent = map[string]stamp{}
	if err := m.Send(t.Context()); err != nil || f.objects["mesh/r1/events.jsonl"] != "sent in parts" {
		t.Errorf("sent by such keys: %v", err)
	}
	if err := b.Remove(t.Context(), func() {}); err == nil || !strings.Contains(err.Error(), "remove what was sent in part to s3://runs/mesh/r1") {
		t.Errorf("removed by such keys: %v", err)
	}
}

// A store that is away is waited for, and one that refuses for good is not.
func TestStoreRefuses(t *testing.T) {
	f := &fake{objects: map[string]string{}}
	b, dir := f.open(t), t.TempDir()
	detachedtest.Write(t, dir, map[string]string{store.FileHeader: "{}"})
	var told []string
	b.Tell = func(text string) { told = append(told, text) }
	left := 3
	f.refuse = func(r *http.Request) (int, string) {
		if left--; left >= 0 && r.Method == http.MethodPut {
			return http.StatusServiceUnavailable, "SlowDown"
		}
		return 0, ""
	}
	m := &Mirror{bucket: b, dir: dir, sent: map[string]stamp{}}
	if err := m.Send(t.Context()); err != nil || f.objects["mesh/r1/machine.json"] != "{}" || len(told) != 3 || !strings.Contains(told[0], "waiting for the store") {
		t.Errorf("away for three tries: %v, %q, %v", err, told, f.objects)
	}
	for name, c := range map[string]struct {
		status int
		code   string
	}{"no bucket": {http.StatusNotFound, "NoSuchBucket"}, "no rights": {http.StatusForbidden, "AccessDenied"}, "another key": {http.StatusForbidden, "SignatureDoesNotMatch"}} {
		tries := 0
		f.refuse = func(*http.Request) (int, string) { tries++; return c.status, c.code }
		m.sent = map[string]stamp{}
		if err := m.Send(t.Context()); err == nil || errs.Hint(err) == "" || tries > 2 || !Refused(err) {
			t.Errorf("%s: %v after %d tries", name, err, tries)
		}
	}
	f.refuse = func(*http.Request) (int, string) { return http.StatusInsufficientStorage, "StorageFull" }
	b.patience = 20 * time.Millisecond
	if err := m.Send(t.Context()); err == nil || !strings.Contains(err.Error(), "gave up after") || Refused(err) {
		t.Errorf("full for good: %v", err)
	}
}

// A file that vanishes here before it is sent is no matter of the store's.
func TestFileVanishes(t *testing.T) {
	f := &fake{objects: map[string]string{}}
	b, dir := f.open(t), filepath.Join(t.TempDir(), "r1")
	m, err := b.Mirror(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	if m.Made() {
		t.Error("there is a run directory before anybody made one")
	}
	detachedtest.Write(t, dir, map[string]string{"hist/a.hlog": "#", "hist/b.hlog": "#", store.FileHeader: "{}"})
	f.refuse = func(r *http.Request) (int, string) {
		if strings.HasSuffix(r.URL.Path, "a.hlog") {
			os.Remove(filepath.Join(dir, "hist", "b.hlog"))
		}
		return 0, ""
	}
	if err := m.Send(t.Context()); !errors.Is(err, fs.ErrNotExist) || errs.Hint(err) != "" || !strings.Contains(err.Error(), "write hist/b.hlog to s3://runs/mesh/r1: ") || !m.Made() {
		t.Errorf("%v, hint %q", err, errs.Hint(err))
	}
	if !slices.Equal(f.order, []string{"mesh/r1/hist/a.hlog"}) {
		t.Errorf("sent %v", f.order)
	}
}

// A store that hangs, with its connections open, is a store that is away: whatever is asked
// of it is asked again, and not for ever.
func TestStoreHangs(t *testing.T) {
	f := &fake{objects: map[string]string{"mesh/r1/machine.json": "{}"}}
	b, dir := f.open(t), t.TempDir()
	detachedtest.Write(t, dir, map[string]string{"hist/a.hlog": "#"})
	goesOn := make(chan struct{})
	release := sync.OnceFunc(func() { close(goesOn) })
	t.Cleanup(release) // before the server ends, which waits for what it was asked
	var hangs atomic.Pointer[func(r *http.Request) bool]
	f.hang = func(r *http.Request) {
		if (*hangs.Load())(r) {
			<-goesOn
		}
	}
	method := func(name string) func(r *http.Request) bool {
		return func(r *http.Request) bool { return r.Method == name && r.URL.Query().Get("list-type") == "" }
	}
	list := func(r *http.Request) bool { return r.URL.Query().Get("list-type") != "" }
	told := 0
	b.Tell = func(text string) {
		if told++; !strings.Contains(text, "waiting for the store") || !strings.Contains(text, "not done within") {
			t.Errorf("told %q", text)
		}
	}
	m := &Mirror{bucket: b, dir: dir, sent: map[string]stamp{}}
	b.answerTime, b.patience = 50*time.Millisecond, 500*time.Millisecond
	for _, c := range []struct {
		name string
		when func(r *http.Request) bool
		do   func() error
	}{
		{"list", list, func() error { return b.Restore(t.Context(), filepath.Join(t.TempDir(), "r1"), func() {}) }},
		{"read", method(http.MethodGet), func() error { return b.Restore(t.Context(), filepath.Join(t.TempDir(), "r1"), func() {}) }},
		{"remove", method(http.MethodDelete), func() error { return b.Remove(t.Context(), func() {}) }},
		{"write", method(http.MethodPut), func() error { return m.Send(t.Context()) }},
	} {
		hangs.Store(&c.when)
		if err := c.do(); err == nil || !strings.HasPrefix(err.Error(), c.name) || !strings.Contains(err.Error(), "gave up after") {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	if told == 0 {
		t.Error("nobody was told of the second try")
	}
	b.patience = time.Minute
	b.Tell = func(string) { release() }
	if err := m.Send(t.Context()); err != nil {
		t.Errorf("once it goes on: %v", err)
	}
	if f.mu.Lock(); f.objects["mesh/r1/hist/a.hlog"] != "#" {
		t.Errorf("it has %v", f.objects)
	}
	f.mu.Unlock()
}

// Objects that others put there do not leave the directory.
func TestRestoreRefuses(t *testing.T) {
	f := &fake{objects: map[string]string{"mesh/r1/../../escaped": "x"}}
	b, parent := f.open(t), t.TempDir()
	if err := b.Restore(t.Context(), filepath.Join(parent, "a", "r1"), func() {}); err == nil || !strings.Contains(err.Error(), "lies outside") {
		t.Errorf("%v", err)
	}
	if _, err := os.Stat(filepath.Join(parent, "escaped")); err == nil {
		t.Error("it was written")
	}
}

package bucket

import (
	"cmp"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/minio/minio-go/v7"

	"github.com/meshtrial/meshtrial/store"
)

// Mirror sends a run directory to a bucket. It is used by one goroutine.
type Mirror struct {
	bucket *Bucket
	dir    string
	sent   map[string]stamp
	took   bool
}

// stamp is what tells a file from what it was.
type stamp struct {
	size    int64
	changed time.Time
}

// Mirror makes the run directory dir of what the bucket has, or nothing, and is to send what
// comes.
func (b *Bucket) Mirror(ctx context.Context, dir string) (*Mirror, error) {
	if err := b.Restore(ctx, dir, func() {}); err != nil {
		return nil, err
	}
	m := &Mirror{bucket: b, dir: dir}
	there, err := m.look()
	m.sent = there
	if errors.Is(err, fs.ErrNotExist) {
		m.sent, err = map[string]stamp{}, nil
	}
	return m, err
}

// last are the files that say what others there are, in their order: without its header there
// is no run.
var last = []string{store.FileEvents, store.FileTrials, store.FileHeader}

// order sorts files as they are sent.
func order(names []string) {
	slices.SortFunc(names, func(a, b string) int {
		return cmp.Or(cmp.Compare(slices.Index(last, a), slices.Index(last, b)), strings.Compare(a, b))
	})
}

// look finds the files of the run directory.
func (m *Mirror) look() (map[string]stamp, error) {
	found := map[string]stamp{}
	err := fs.WalkDir(os.DirFS(m.dir), ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() || store.Temporary(entry.Name()) {
			return err
		}
		info, err := entry.Info()
		if err == nil {
			found[name] = stamp{info.Size(), info.ModTime()}
		}
		return err
	})
	return found, err
}

// Made says whether there is a run directory to send.
func (m *Mirror) Made() bool {
	_, err := os.Stat(m.dir)
	return !errors.Is(err, fs.ErrNotExist)
}

// Send sends what is new or has changed. It waits for a store that is away, and returns when
// all is there.
func (m *Mirror) Send(ctx context.Context) error {
	found, err := m.look()
	if err != nil {
		return err
	}
	root, err := os.OpenRoot(m.dir)
	if err != nil {
		return err
	}
	defer root.Close()
	var names []string
	for name, is := range found {
		if m.sent[name] != is {
			names = append(names, name)
		}
	}
	order(names)
	for _, name := range names {
		if err := m.bucket.again(ctx, "write "+name+" to", found[name].size, func(ctx context.Context) error { return m.bucket.put(ctx, root, name) }); err != nil {
			return err
		}
		m.sent[name], m.took = found[name], true
	}
	return nil
}

// Took says whether the store has taken any file from here.
func (m *Mirror) Took() bool { return m.took }

// put sends a file as long as it is now.
func (b *Bucket) put(ctx context.Context, root *os.Root, name string) error {
	file, err := root.Open(name)
	if err != nil {
		return err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return err
	}
	if info.Size() >= inParts {
		_ = b.abandon(ctx) // it takes room, and is no matter of this file: who may not see it leaves it there
	}
	// The sum is among what is signed.
	_, err = b.client.PutObject(ctx, b.name, b.prefix+name, io.LimitReader(file, info.Size()), info.Size(), minio.PutObjectOptions{SendContentMd5: true, DisableContentSha256: true})
	return err
}

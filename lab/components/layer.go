package components

import (
	"archive/tar"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// content is a file, folder or link of an image.
type content struct {
	Name string      `json:"name"` // absolute, without the leading slash
	Mode fs.FileMode `json:"mode"`
	Link string      `json:"link,omitempty"`
	Data string      `json:"data,omitempty"`
	From string      `json:"-"`             // a file on disk, instead of Data
	Sum  string      `json:"sum,omitempty"` // its digest, for the cache's key
}

// layer is a layer of an image, with a reproducible archive. It is not compressed: it
// stays on this machine, and containerd takes several times longer to inflate it than
// to copy it.
type layer struct {
	contents []content

	once   sync.Once
	err    error
	digest v1.Hash
	size   int64
}

func newLayer(contents ...content) *layer {
	have := map[string]bool{}
	for _, c := range contents {
		have[c.Name] = true
	}
	// Folders come before their contents, whether they are listed or not.
	for _, c := range slices.Clone(contents) {
		for d := path.Dir(c.Name); d != "." && !have[d]; d = path.Dir(d) {
			have[d] = true
			contents = append(contents, content{Name: d, Mode: fs.ModeDir | 0o755})
		}
	}
	slices.SortFunc(contents, func(a, b content) int { return cmp.Compare(a.Name, b.Name) })
	return &layer{contents: contents}
}

// tree lists a folder of a cache entry as contents of an image.
func (e entry) tree(dir string) ([]content, error) {
	root := e.path(dir)
	var all []content
	err := filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if err != nil || p == root {
			return err
		}
		rel, err := filepath.Rel(root, p)
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		c := content{Name: filepath.ToSlash(rel), Mode: info.Mode()}
		switch {
		case d.Type() == fs.ModeSymlink:
			c.Link, err = os.Readlink(p)
		case d.Type().IsRegular():
			c.From, c.Sum = p, e.digest(filepath.Join(dir, rel))
		}
		all = append(all, c)
		return err
	})
	return all, err
}

func (l *layer) write(w io.Writer) error {
	t := tar.NewWriter(w)
	for _, c := range l.contents {
		if err := c.write(t); err != nil {
			return err
		}
	}
	return t.Close()
}

func (c content) write(t *tar.Writer) error {
	h := &tar.Header{Name: c.Name, Mode: int64(c.Mode.Perm()), ModTime: time.Unix(0, 0), Format: tar.FormatPAX}
	if c.Mode&fs.ModeSticky != 0 {
		h.Mode |= 0o1000
	}
	switch {
	case c.Mode.IsDir():
		h.Typeflag, h.Name = tar.TypeDir, c.Name+"/"
		return t.WriteHeader(h)
	case c.Link != "":
		h.Typeflag, h.Linkname, h.Mode = tar.TypeSymlink, c.Link, 0o777
		return t.WriteHeader(h)
	case c.From == "":
		h.Typeflag, h.Size = tar.TypeReg, int64(len(c.Data))
		if err := t.WriteHeader(h); err != nil {
			return err
		}
		_, err := io.Copy(t, strings.NewReader(c.Data))
		return err
	}
	f, err := os.Open(c.From)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	h.Typeflag, h.Size = tar.TypeReg, info.Size()
	if err := t.WriteHeader(h); err != nil {
		return err
	}
	if _, err = io.Copy(t, f); err != nil {
		return fmt.Errorf("%s: %w", c.From, err)
	}
	return nil
}

// size returns the unpacked size of the file.
func (c content) size() (int64, error) {
	if c.From == "" {
		return int64(len(c.Data)), nil
	}
	info, err := os.Stat(c.From)
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

type counter int64

func (n *counter) Write(b []byte) (int, error) { *n += counter(len(b)); return len(b), nil }

func (l *layer) measure() error {
	l.once.Do(func() {
		h, n := sha256.New(), counter(0)
		l.err = l.write(io.MultiWriter(h, &n))
		l.digest, l.size = v1.Hash{Algorithm: "sha256", Hex: hex.EncodeToString(h.Sum(nil))}, int64(n)
	})
	return l.err
}

// Digest implements [v1.Layer].
func (l *layer) Digest() (v1.Hash, error) { err := l.measure(); return l.digest, err }

// DiffID implements [v1.Layer].
func (l *layer) DiffID() (v1.Hash, error) { return l.Digest() }

// Size implements [v1.Layer].
func (l *layer) Size() (int64, error) { err := l.measure(); return l.size, err }

// asIs returns the uncompressed layer.
func (l *layer) asIs() (v1.Layer, error) { return l, nil }

// compressed makes layers for a registry; some registries accept only compressed
// ones. Each is compressed once, until ctx is done, and kept in memory.
func compressed(ctx context.Context) func(*layer) (v1.Layer, error) {
	return func(l *layer) (v1.Layer, error) {
		open := func() (io.ReadCloser, error) { return l.open(ctx), nil }
		return tarball.LayerFromOpener(open, tarball.WithMediaType(types.OCILayer), tarball.WithCompressedCaching)
	}
}

// MediaType implements [v1.Layer].
func (l *layer) MediaType() (types.MediaType, error) { return types.OCIUncompressedLayer, nil }

// Compressed implements [v1.Layer], without compression.
func (l *layer) Compressed() (io.ReadCloser, error) { return l.Uncompressed() }

// Uncompressed implements [v1.Layer].
func (l *layer) Uncompressed() (io.ReadCloser, error) {
	return l.open(context.Background()), nil
}

// open returns the archive. Reads fail once ctx is done.
func (l *layer) open(ctx context.Context) io.ReadCloser {
	r, w := io.Pipe()
	go func() { w.CloseWithError(l.write(stopping{ctx, w})) }() // ends when r is read or closed
	return r
}

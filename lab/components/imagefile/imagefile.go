// Package imagefile extracts one file from an image in a registry. It reads the layers
// from the top until one contains or deletes the file.
package imagefile

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"github.com/meshtrial/meshtrial/internal/errs"
)

// limit is the maximum size of a file, in bytes.
const limit = 1 << 30

// Take extracts a file of an image into a folder, using the user's registry credentials
// (docker login). It returns the file's path and the image with its digest.
func Take(ctx context.Context, ref, file, dir string) (to, of string, err error) {
	parsed, err := name.ParseReference(ref)
	if err != nil {
		return "", "", errs.Usage("image %s: %v", ref, err)
	}
	to = filepath.Join(dir, path.Base(file))
	image, err := remote.Image(parsed, remote.WithContext(ctx), remote.WithAuthFromKeychain(authn.DefaultKeychain),
		remote.WithPlatform(v1.Platform{OS: "linux", Architecture: runtime.GOARCH}))
	var digest v1.Hash
	if err == nil {
		digest, err = image.Digest()
	}
	if err == nil {
		err = fromLayers(ctx, image, file, to, limit)
	}
	switch {
	case err != nil && ctx.Err() != nil:
		return "", "", context.Cause(ctx)
	case err != nil:
		return "", "", errs.WithHint(fmt.Errorf("image %s: %w", ref, err), "registry %s must be reachable and have the image", parsed.Context().RegistryStr())
	}
	return to, parsed.Context().Name() + "@" + digest.String(), nil
}

// fromLayers extracts a file of an image.
func fromLayers(ctx context.Context, image v1.Image, file, to string, limit int64) error {
	layers, err := image.Layers()
	if err != nil {
		return err
	}
	for _, layer := range slices.Backward(layers) {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		found, err := fromLayer(layer, file, to, limit)
		if found || err != nil {
			return err
		}
	}
	return fmt.Errorf("it has no %s", file)
}

// OCI whiteouts delete a file, or a folder's content, of the layers below.
const (
	whiteout = ".wh."
	opaque   = ".wh..wh..opq"
)

// fromLayer extracts a file of a layer. found reports whether the layer contains the file
// or deletes it, which is an error.
func fromLayer(layer v1.Layer, file, to string, limit int64) (found bool, err error) {
	content, err := layer.Uncompressed()
	if err != nil {
		return false, err
	}
	// The layer's digest is verified at its end.
	defer func() {
		if err == nil {
			_, err = io.Copy(io.Discard, content)
		}
		err = errors.Join(err, content.Close())
	}()
	gone := false
	for in := tar.NewReader(content); ; {
		h, err := in.Next()
		if errors.Is(err, io.EOF) {
			if gone {
				return true, fmt.Errorf("it has no %s", file)
			}
			return false, nil
		}
		if err != nil {
			return false, err
		}
		entry := strings.TrimPrefix(path.Clean("/"+h.Name), "/")
		gone = gone || takesAway(entry, file)
		if entry != file {
			continue
		}
		if h.Typeflag != tar.TypeReg || h.Size > limit {
			return true, fmt.Errorf("its %s is not a file, or is larger than %d bytes", file, limit)
		}
		out, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o755)
		if err != nil {
			return true, err
		}
		_, err = io.Copy(out, io.LimitReader(in, limit))
		return true, errors.Join(err, out.Close())
	}
}

// takesAway reports whether a layer's entry deletes a file of the layers below.
func takesAway(entry, file string) bool {
	dir, base := path.Split(entry)
	if base == opaque {
		return strings.HasPrefix(file, dir)
	}
	of, ok := strings.CutPrefix(base, whiteout)
	return ok && (file == dir+of || strings.HasPrefix(file, dir+of+"/"))
}

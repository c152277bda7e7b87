package push

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// Archive writes an image to one tar file as an OCI layout, which `ctr images import`
// accepts, together with the manifest that `docker load` reads.
func Archive(w io.Writer, ref string, image v1.Image) error {
	manifest, err := image.RawManifest()
	if err != nil {
		return err
	}
	digest, err := image.Digest()
	if err != nil {
		return err
	}
	mediaType, err := image.MediaType()
	if err != nil {
		return err
	}
	file, err := image.ConfigFile()
	if err != nil {
		return err
	}
	index, err := json.Marshal(v1.IndexManifest{
		SchemaVersion: 2,
		MediaType:     types.OCIImageIndex,
		Manifests: []v1.Descriptor{{
			MediaType: mediaType, Size: int64(len(manifest)), Digest: digest,
			Platform:    &v1.Platform{OS: "linux", Architecture: file.Architecture},
			Annotations: map[string]string{"io.containerd.image.name": ref},
		}},
	})
	if err != nil {
		return err
	}
	t := tar.NewWriter(w)
	put := func(name string, size int64, from io.Reader) error {
		h := &tar.Header{Name: name, Mode: 0o644, Size: size, ModTime: time.Unix(0, 0), Typeflag: tar.TypeReg, Format: tar.FormatPAX}
		if err := t.WriteHeader(h); err != nil {
			return err
		}
		n, err := io.Copy(t, from)
		if err == nil && n != size {
			err = fmt.Errorf("%s has %d bytes, want %d", name, n, size)
		}
		return err
	}
	putBytes := func(name string, b []byte) error { return put(name, int64(len(b)), bytes.NewReader(b)) }
	blob := func(h v1.Hash) string { return "blobs/" + h.Algorithm + "/" + h.Hex }

	if err := putBytes("oci-layout", []byte(`{"imageLayoutVersion":"1.0.0"}`)); err != nil {
		return err
	}
	if err := putBytes("index.json", index); err != nil {
		return err
	}
	if err := putBytes(blob(digest), manifest); err != nil {
		return err
	}
	config, err := image.RawConfigFile()
	if err != nil {
		return err
	}
	name, err := image.ConfigName()
	if err != nil {
		return err
	}
	if err := putBytes(blob(name), config); err != nil {
		return err
	}
	layers, err := image.Layers()
	if err != nil {
		return err
	}
	docker := tarball.Descriptor{Config: blob(name), RepoTags: []string{ref}}
	for _, l := range layers {
		digest, err := l.Digest()
		if err != nil {
			return err
		}
		docker.Layers = append(docker.Layers, blob(digest))
	}
	list, err := json.Marshal(tarball.Manifest{docker})
	if err != nil {
		return err
	}
	if err := putBytes("manifest.json", list); err != nil {
		return err
	}
	written := map[v1.Hash]bool{}
	for _, l := range layers {
		if err := putLayer(l, blob, put, written); err != nil {
			return err
		}
	}
	return t.Close()
}

func putLayer(l v1.Layer, blob func(v1.Hash) string, put func(string, int64, io.Reader) error, written map[v1.Hash]bool) error {
	digest, err := l.Digest()
	if err != nil || written[digest] {
		return err
	}
	written[digest] = true
	size, err := l.Size()
	if err != nil {
		return err
	}
	r, err := l.Compressed()
	if err != nil {
		return err
	}
	defer r.Close()
	return put(blob(digest), size, r)
}

package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/meshtrial/meshtrial/drive/xds"
	"github.com/meshtrial/meshtrial/internal/confile"
	"github.com/meshtrial/meshtrial/testing/xdsserver"
)

// record keeps what istiod sent one of the fleet's sidecars for the part limit,
// and writes it to the named file.
func (o *options) record(ctx context.Context, f *fleet, proxies []xds.Proxy) error {
	held, err := f.Holdings(ctx)
	if err != nil {
		return err
	}
	kinds := xds.Holdings(proxies, held)
	if len(kinds) == 0 {
		return errors.New("the fleet has no sidecars")
	}
	data, err := f.Configuration(ctx, kinds[0])
	if err != nil {
		return err
	}
	if o.recorded, err = unpack(data); err != nil {
		return err
	}
	o.say("recorded what istiod sent %s: %.1f MB", kinds[0].Name, float64(kinds[0].Bytes)/1e6)
	if o.recording == "" {
		return nil
	}
	return os.WriteFile(o.recording, data, 0o644)
}

func unpack(data []byte) (xdsserver.Configuration, error) {
	z, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		return nil, err
	}
	return xdsserver.Read(z)
}

// configuration returns what the part limit serves, and its origin: what the
// part istiod has just recorded, otherwise the named file, otherwise a synthetic
// one.
func (o *options) configuration() (c xdsserver.Configuration, from string, err error) {
	if o.recorded != nil {
		return o.recorded, "recorded from istiod in this run", nil
	}
	if o.recording != "" {
		data, err := os.ReadFile(o.recording)
		if err != nil {
			return nil, "", fmt.Errorf("%w; meshtrial xds record makes one, or the part istiod", err)
		}
		c, err := unpack(data)
		return c, "recorded: " + o.recording, err
	}
	c, err = xdsserver.Synthetic(o.services, endpoints)
	return c, fmt.Sprintf("made up; -recording FILE%s serves istiod's own", confile.Extension), err
}

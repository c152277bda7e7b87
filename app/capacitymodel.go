package app

import (
	_ "embed"
	"fmt"

	"github.com/klauspost/compress/zstd"

	"github.com/meshtrial/meshtrial/advise/capacity/model"
)

//go:embed capacity/1.31.json.zst
var shippedCapacity []byte

// shippedModel is the capacity model that ships with the program.
func shippedModel() (*model.Model, error) {
	z, err := zstd.NewReader(nil, zstd.WithDecoderMaxMemory(model.MaxFile))
	if err != nil {
		return nil, err
	}
	defer z.Close()
	data, err := z.DecodeAll(shippedCapacity, nil)
	if err != nil {
		return nil, fmt.Errorf("the capacity model that ships: %w", err)
	}
	return model.Parse(data)
}

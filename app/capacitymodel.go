package app

import (
	_ "embed"
	"fmt"

	"github.com/meshtrial/meshtrial/advise/capacity/model"
)

//go:embed capacity/1.31.json.zst
var shippedCapacity []byte

// shippedModel is the capacity model that ships with the program.
func shippedModel() (*model.Model, error) {
	data, err := unpacked(shippedCapacity, model.MaxFile)
	if err != nil {
		return nil, fmt.Errorf("the capacity model that ships: %w", err)
	}
	return model.Parse(data)
}

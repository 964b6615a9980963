//go:build !linux

package place

import "errors"

func allowed() ([]int, error)   { return nil, errors.ErrUnsupported }
func move(int, []int) error     { return errors.ErrUnsupported }
func again([]int, string) error { return errors.ErrUnsupported }

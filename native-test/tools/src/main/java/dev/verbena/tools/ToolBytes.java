package dev.verbena.tools;

import picocli.CommandLine.ITypeConverter;
import picocli.CommandLine.TypeConversionException;

/** Reads an option that is a number of bytes, such as 4096 or 4K. */
final class ToolBytes implements ITypeConverter<Integer> {
    @Override
    public Integer convert(String text) {
        try {
            return PerfSizes.bytes(text);
        } catch (IllegalArgumentException e) {
            throw new TypeConversionException(e.getMessage());
        }
    }
}

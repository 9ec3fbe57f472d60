/* Tells count.c, the plugin of the QEMU that this runs in, to write down what it has counted. */
#include "mark.h"

#define TEXT(...) #__VA_ARGS__
#define BYTES(...) ".byte " TEXT(__VA_ARGS__)

int main(void)
{
	__asm__ volatile(BYTES(MARK));
	return 0;
}

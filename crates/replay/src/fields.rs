//! Fields of a record: whole numbers in groups of seven bits, addresses, texts.

use core::net::IpAddr;

/// A record that does not have its form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed;

/// Appends fields to a record.
pub trait Put {
    /// A whole number: seven bits a byte, the lowest first; the top bit states that more follow.
    fn put_number(&mut self, number: u64);

    /// A truth value as one byte.
    fn put_flag(&mut self, flag: bool);

    /// Appends the number of bytes and then the bytes.
    fn put_bytes(&mut self, bytes: &[u8]);

    /// An address: 4 or 6, and its bytes.
    fn put_address(&mut self, address: IpAddr);

    /// Appends the number of items and then each item by `put`; [`Fields::list`] reads them.
    fn put_list<T>(&mut self, items: impl ExactSizeIterator<Item = T>, put: impl FnMut(T, &mut Self));
}

impl Put for Vec<u8> {
    fn put_number(&mut self, mut number: u64) {
        while number >= 0x80 {
            self.push(number as u8 | 0x80);
            number >>= 7;
        }
        self.push(number as u8);
    }

    fn put_flag(&mut self, flag: bool) {
        self.push(flag.into());
    }

    fn put_bytes(&mut self, bytes: &[u8]) {
        self.put_number(bytes.len() as u64);
        self.extend_from_slice(bytes);
    }

    fn put_address(&mut self, address: IpAddr) {
        match address {
            IpAddr::V4(address) => {
                self.push(4);
                self.extend_from_slice(&address.octets());
            }
            IpAddr::V6(address) => {
                self.push(6);
                self.extend_from_slice(&address.octets());
            }
        }
    }

    fn put_list<T>(&mut self, items: impl ExactSizeIterator<Item = T>, mut put: impl FnMut(T, &mut Self)) {
        self.put_number(items.len() as u64);
        items.for_each(|item| put(item, self));
    }
}

/// The unread fields of a record.
#[derive(Clone, Copy, Debug)]
pub struct Fields<'a>(pub &'a [u8]);

impl<'a> Fields<'a> {
    /// The next byte.
    pub fn byte(&mut self) -> Result<u8, Malformed> {
        let (first, rest) = self.0.split_first().ok_or(Malformed)?;
        self.0 = rest;
        Ok(*first)
    }

    /// The next `len` bytes.
    pub fn take(&mut self, len: usize) -> Result<&'a [u8], Malformed> {
        let (taken, rest) = self.0.split_at_checked(len).ok_or(Malformed)?;
        self.0 = rest;
        Ok(taken)
    }

    /// The next whole number.
    pub fn number(&mut self) -> Result<u64, Malformed> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7f);
            if bits << shift >> shift != bits {
                return Err(Malformed);
            }
            number |= bits << shift;
            if byte < 0x80 {
                return Ok(number);
            }
        }
        Err(Malformed)
    }

    /// The next whole number, as a smaller type.
    pub fn small<T: TryFrom<u64>>(&mut self) -> Result<T, Malformed> {
        T::try_from(self.number()?).map_err(|_| Malformed)
    }

    /// The next truth value.
    pub fn flag(&mut self) -> Result<bool, Malformed> {
        match self.byte()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(Malformed),
        }
    }

    /// Reads a number of bytes and then the bytes.
    pub fn bytes(&mut self) -> Result<&'a [u8], Malformed> {
        let len = self.small()?;
        self.take(len)
    }

    /// The next text.
    pub fn text(&mut self) -> Result<&'a str, Malformed> {
        core::str::from_utf8(self.bytes()?).map_err(|_| Malformed)
    }

    /// The next address.
    pub fn address(&mut self) -> Result<IpAddr, Malformed> {
        match self.byte()? {
            4 => Ok(self.array::<4>()?.into()),
            6 => Ok(self.array::<16>()?.into()),
            _ => Err(Malformed),
        }
    }

    /// The next `N` bytes.
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        self.take(N)?.try_into().map_err(|_| Malformed)
    }

    /// Reads a number of items and then the items; each has at least one byte.
    pub fn list<T>(
        &mut self,
        mut item: impl FnMut(&mut Self) -> Result<T, Malformed>,
    ) -> Result<Vec<T>, Malformed> {
        let len: usize = self.small()?;
        if len > self.0.len() {
            return Err(Malformed);
        }
        (0..len).map(|_| item(self)).collect()
    }

    /// Checks that no field is left.
    pub const fn end(self) -> Result<(), Malformed> {
        if self.0.is_empty() { Ok(()) } else { Err(Malformed) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_seven_bits_a_byte() {
        let mut out = Vec::new();
        for number in [0, 127, 128, 300, u64::MAX] {
            out.put_number(number);
        }
        assert_eq!(out[..6], [0, 127, 0x80, 1, 0xac, 2]);
        let mut fields = Fields(&out);
        assert_eq!([(); 5].map(|()| fields.number()), [Ok(0), Ok(127), Ok(128), Ok(300), Ok(u64::MAX)]);
        assert_eq!((fields.number(), fields.end()), (Err(Malformed), Ok(())));
        // A number of more than 64 bits is invalid, whether its last byte ends the number or not.
        assert_eq!(Fields(&[0xff; 10]).number(), Err(Malformed));
        assert_eq!(
            Fields(&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2]).number(),
            Err(Malformed)
        );
        assert_eq!(Fields(&[0x80, 2]).small::<u8>(), Err(Malformed));
    }

    #[test]
    fn addresses_and_lists_are_read_back() {
        let addresses: [IpAddr; 2] = [[10, 0, 0, 1].into(), [0xfd00, 0, 0, 0, 0, 0, 0, 9].into()];
        let mut out = Vec::new();
        out.put_list(addresses.iter(), |&address, out| out.put_address(address));
        let mut fields = Fields(&out);
        assert_eq!(fields.list(Fields::address), Ok(addresses.to_vec()));
        // A count larger than the remaining bytes reserves no memory.
        assert_eq!(Fields(&[0xff, 0xff, 3, 4]).list(Fields::byte), Err(Malformed));
        assert_eq!(Fields(&[2]).flag(), Err(Malformed));
        assert_eq!(Fields(&[5, 0]).address(), Err(Malformed));
    }
}

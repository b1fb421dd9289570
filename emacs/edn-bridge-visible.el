;;; edn-bridge-visible.el --- Show what cannot be seen  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: MIT OR Apache-2.0

;;; Commentary:

;; A model, a page or a project writes what a chat shows.  Characters that
;; are not seen, or that turn around the order of those beside them, make
;; a command or a diff look like another.  Here they get visible codes,
;; such as \u{202E}.
;;
;; In a buffer the text stays as it is and the code is a `display'
;; property: what is displayed so takes no part in the ordering of text
;; that is written from right to left.  A string that is a label, of a
;; session say, gets the code as its text.
;;
;; Lines that are too long for Emacs to lay out are broken here, too.
;;
;; This file knows nothing of chats.

;;; Code:

(require 'cl-lib)
(require 'edn-bridge-faces)

(defconst edn-bridge-visible--ranges
  '(#xAD                                ; soft hyphen
    #x34F                               ; grapheme joiner
    #x61C (#x115F . #x1160) (#x17B4 . #x17B5) (#x180B . #x180F)
    (#x200B . #x200F)                   ; zero width, direction marks
    (#x2028 . #x202E)                   ; separators, embedding, override
    (#x2060 . #x206F)                   ; word joiner, isolates, and others
    #x2800 #x3164
    (#xE000 . #xF8FF)                   ; private use
    (#xFE00 . #xFE0F)                   ; variation selectors
    #xFEFF #xFFA0 (#xFFF0 . #xFFFC)
    (#x1BCA0 . #x1BCA3) (#x1D173 . #x1D17A)
    (#xE0000 . #xE0FFF)                 ; tags, variation selectors
    (#xF0000 . #x10FFFF))               ; private use
  "Characters that are not seen, and ranges of them.
Control characters are not among them: Emacs shows those by itself.")

(defun edn-bridge-visible--class (ranges)
  "Return the inside of a character class that matches RANGES."
  (mapconcat (lambda (range)
               (if (consp range)
                   (string (car range) ?- (cdr range))
                 (string range)))
             ranges ""))

(defconst edn-bridge-visible--regexp
  (concat "[" (edn-bridge-visible--class edn-bridge-visible--ranges) "]")
  "Matches a character that is not seen.")

(defconst edn-bridge-visible--label-regexp
  (concat "[\0-\x1f\x7f-\x9f"
          (edn-bridge-visible--class edn-bridge-visible--ranges) "]")
  "Matches a character that a label must not have as it is.")

(defun edn-bridge-visible-code (char)
  "Return the code that is shown for CHAR."
  (pcase char
    (?\n "\\n")
    (?\t "\\t")
    (_ (format "\\u{%X}" char))))

(defun edn-bridge-visible-label (text)
  "Return TEXT as one line, with codes for what is not seen."
  (if (string-match-p edn-bridge-visible--label-regexp text)
      (replace-regexp-in-string
       edn-bridge-visible--label-regexp
       (lambda (match) (edn-bridge-visible-code (aref match 0)))
       text t t)
    text))

(defconst edn-bridge-visible--piled-regexp "\\c^\\{9\\}"
  "Matches more marks on a letter than any script needs.
A pile of them is drawn over what stands beside it.")

(defconst edn-bridge-visible--limit 200
  "How many codes are shown of one piece of text.
The piece ends there, and its rest is shown as a note: what has more of
such characters is not meant to be read, and each costs time.")

(defsubst edn-bridge-visible-ascii-p (start end)
  "Return non-nil if all between START and END is ASCII.
That is known without a look at the text, and most text is."
  (= (- end start) (- (position-bytes end) (position-bytes start))))

(defun edn-bridge-visible-region (start end &optional strict)
  "Show codes for what is not seen between START and END.
What holds an emoji together is left alone, but not with STRICT non-nil:
where a person is asked to allow something, every character counts."
  (let ((count 0)
        ;; No `save-excursion': a marker for each piece would cost.
        (before (point)))
    (goto-char start)
    (while (and (not (edn-bridge-visible-ascii-p (point) end))
                (re-search-forward edn-bridge-visible--regexp end t))
      (let* ((place (match-beginning 0))
             (char (char-after place)))
        (unless (and (not strict)
                     (edn-bridge-visible--in-emoji-p place char))
          (cl-incf count)
          (if (<= count edn-bridge-visible--limit)
              (edn-bridge-visible--put place (1+ place)
                                       (edn-bridge-visible-code char))
            (edn-bridge-visible--put
             place end
             (format "[%d more characters, many of which cannot be seen]"
                     (- end place)))
            (goto-char end)))))
    (goto-char start)
    (while (and (not (edn-bridge-visible-ascii-p (point) end))
                (re-search-forward edn-bridge-visible--piled-regexp end t))
      (let ((place (1- (point))))
        ;; In pieces: one match of many thousands is too much for Emacs.
        (while (and (< (point) end) (looking-at "\\c^\\{1,500\\}"))
          (goto-char (min end (match-end 0))))
        (edn-bridge-visible--put place (point)
                                 (format "[%d more marks]" (- (point) place)))))
    (goto-char before)))

(defun edn-bridge-visible-codes-p (start end)
  "Return non-nil if codes are shown for something between START and END.
See `edn-bridge-visible-region'."
  (unless (edn-bridge-visible-ascii-p start end)
    (save-excursion
      (goto-char start)
      (or (cl-loop while (re-search-forward edn-bridge-visible--regexp end t)
                   thereis (not (edn-bridge-visible--in-emoji-p
                                 (match-beginning 0)
                                 (char-after (match-beginning 0)))))
          (progn
            (goto-char start)
            (re-search-forward edn-bridge-visible--piled-regexp end t))))))

(defun edn-bridge-visible--put (start end text)
  "Have TEXT shown in the place of what stands between START and END."
  (put-text-property start end 'display
                     (propertize text 'face 'edn-bridge-visible-code)))

;;;; Long lines

(defconst edn-bridge-visible-line-limit 2000
  "How long a line is, in characters, before it is broken.
Emacs lays out a line as a whole: one of many thousands of characters can
make it stand still.")

(defconst edn-bridge-visible--rtl-line-limit 500
  "The same for text with letters from right to left, or that are composed.
To put those in order costs more, and so do the codes of what is hidden.")

(defconst edn-bridge-visible--rtl-regexp
  (concat "[\u0300-\u036F\u0590-\u109F\u1100-\u11FF\u1780-\u18AF"
          "\u1AB0-\u1AFF\u1DC0-\u1DFF\u20D0-\u20FF\uFB1D-\uFDFF"
          "\uFE20-\uFE2F\uFE70-\uFEFC"
          (edn-bridge-visible--class edn-bridge-visible--ranges) "]")
  "Matches a character of text that costs more to lay out.")

(defconst edn-bridge-visible--order-line-limit 150
  "The same for text with characters that change the order of others.
Each begins a level of its own; nobody writes them in long lines.")

(defconst edn-bridge-visible--order-regexp "[\u202A-\u202E\u2066-\u2069]"
  "Matches a character that changes the order of those behind it.")

(defun edn-bridge-visible-break (text column)
  "Return TEXT with its long lines broken, where it is inserted at COLUMN.
The breaks have the property `edn-bridge-visible-break'."
  (if (< (+ column (length text)) edn-bridge-visible--order-line-limit)
      text
    (let ((limit (cond
                  ((= (string-bytes text) (length text))
                   edn-bridge-visible-line-limit)
                  ((string-match-p edn-bridge-visible--order-regexp text)
                   edn-bridge-visible--order-line-limit)
                  ((string-match-p edn-bridge-visible--rtl-regexp text)
                   edn-bridge-visible--rtl-line-limit)
                  (t edn-bridge-visible-line-limit))))
      (if (< (+ column (length text)) limit)
          text
        (with-temp-buffer
          (insert text)
          (goto-char (point-min))
          (let ((left (max 0 (- limit column))))
            (while (< left (- (point-max) (point)))
              (let ((from (point)))
                (forward-char left)
                ;; From the far end: short lines are passed over together.
                (unless (search-backward "\n" from t)
                  (goto-char (+ from left))
                  (insert (propertize "\n" 'edn-bridge-visible-break t))
                  (backward-char))
                (forward-char)
                (setq left limit))))
          (buffer-string))))))

(defun edn-bridge-visible-setup ()
  "Have this buffer laid out quickly, and copied without breaks."
  (setq-local filter-buffer-substring-function #'edn-bridge-visible-unbroken
              ;; Pairing brackets takes minutes where many are open.
              bidi-inhibit-bpa t))

(defun edn-bridge-visible-unbroken (start end &optional delete)
  "Return the text between START and END, without the breaks of long lines.
DELETE non-nil means to delete it.  This is for
`filter-buffer-substring-function'."
  (let ((text (if delete
                  (delete-and-extract-region start end)
                (buffer-substring start end)))
        (parts nil)
        (place 0))
    (while (< place (length text))
      (let ((next (next-single-property-change
                   place 'edn-bridge-visible-break text (length text))))
        (unless (get-text-property place 'edn-bridge-visible-break text)
          (push (substring text place next) parts))
        (setq place next)))
    (let ((text (apply #'concat (nreverse parts))))
      ;; How a chat displays it is the chat's own affair.
      (remove-list-of-text-properties
       0 (length text) '(display invisible line-prefix wrap-prefix) text)
      text)))

(defun edn-bridge-visible--in-emoji-p (place char)
  "Return non-nil if CHAR at PLACE is the joiner or the style of an emoji."
  (and (memq char '(#x200D #xFE0E #xFE0F))
       (> place (point-min))
       (let ((before (char-before place)))
         (or (<= #x1F000 before #x1FAFF)
             (<= #x2190 before #x2BFF)
             (memq before '(?# ?* #xA9 #xAE #x203C #x2049 #xFE0F #x200D))
             (<= ?0 before ?9)))))

(provide 'edn-bridge-visible)

;;; edn-bridge-visible.el ends here

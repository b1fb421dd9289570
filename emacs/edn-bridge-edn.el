;;; edn-bridge-edn.el --- Read and print EDN  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: MIT OR Apache-2.0

;;; Commentary:

;; EDN text to Lisp data and back, and nothing else: this file knows no
;; process, no frame and no buffer of the user's.
;;
;; How EDN is represented:
;;
;;   map             property list, (:key value ...); the empty map is nil
;;   vector          vector
;;   list, set       vector
;;   string          string
;;   keyword         keyword, `:ns/name'
;;   symbol          symbol
;;   number          integer or float (a last N or M is dropped)
;;   character       string of that one character
;;   true false nil  t, :false, nil
;;   #tag value      (:edn/tag tag :edn/value value)
;;
;; The server can be asked to write its frames in this form already (the
;; feature `plist-frames'); such a line is Lisp as it stands.
;;
;; How reading stays fast: the built-in `read' does the work.  EDN and
;; Lisp differ in few characters, so the bytes of a line are patched in
;; place first: braces become parentheses, true becomes t.  The patching
;; jumps from quote to quote by `string-search', so that its cost grows
;; with the number of strings and not with their length.  A line with
;; anything rarer outside its strings (sets, tags, characters, comments,
;; commas ...) is read by a plain recursive reader.
;;
;; This is a reader, not a judge: what is no EDN, but Lisp once patched,
;; may pass (a map with an odd number of forms, say).
;;
;; Lines are handed in as unibyte strings, as a process with a binary
;; coding system delivers them: indexing and patching these costs the
;; same at every place, which in a multibyte string it does not.

;;; Code:

(require 'cl-lib)

;;;; Public API

(define-error 'edn-bridge-edn-error "Not readable as EDN")

(defun edn-bridge-edn-read-string (string)
  "Return the one EDN form in STRING as Lisp data.
Signal `edn-bridge-edn-error' where STRING is not exactly one form."
  (edn-bridge-edn-read-bytes
   (if (multibyte-string-p string)
       (encode-coding-string string 'utf-8-unix)
     string)))

(defun edn-bridge-edn-read-bytes (bytes)
  "Return the one EDN form in BYTES, UTF-8 in a unibyte string.
Signal `edn-bridge-edn-error' where it is not exactly one form."
  (let ((lisp (edn-bridge-edn--patch bytes)))
    (if lisp
        (edn-bridge-edn-read-plist-bytes lisp)
      (edn-bridge-edn--read-slowly bytes))))

(defun edn-bridge-edn-read-plist-bytes (bytes)
  "Return the one `plist-frames' form in BYTES, UTF-8 in a unibyte string.
Signal `edn-bridge-edn-error' where it is not exactly one form."
  (condition-case err
      (let* ((read-circle nil)
             (text (edn-bridge-edn--decode bytes))
             (result (read-from-string text))
             (end (cdr result)))
        (if (or (= end (length text))
                (string-match-p "\\`[ \t\r\n,]*\\'" (substring text end)))
            (car result)
          (edn-bridge-edn--fail "More than one form" end)))
    ((end-of-file invalid-read-syntax wrong-type-argument args-out-of-range)
     (signal 'edn-bridge-edn-error (cdr err)))))

(defconst edn-bridge-edn--long (* 32 1024)
  "From how many bytes on a line is not decoded but taken as it is.")

(defun edn-bridge-edn--decode (bytes)
  "Return the characters of BYTES, UTF-8 in a unibyte string.
Bytes that are no UTF-8 become raw bytes."
  (if (< (length bytes) edn-bridge-edn--long)
      (decode-coding-string bytes 'utf-8-unix t)
    ;; Emacs's own representation of characters is a superset of UTF-8, so
    ;; that nothing needs to be converted: an eighth of the time.
    (with-suppressed-warnings ((obsolete string-as-multibyte))
      (string-as-multibyte bytes))))

(defun edn-bridge-edn-print-string (value)
  "Return VALUE as EDN text on one line.
A property list or a hash table becomes a map, a vector a vector; for
truth values see the commentary.  What should print as {} is
`edn-bridge-edn-empty-map'."
  (mapconcat #'identity (nreverse (edn-bridge-edn--print value nil)) ""))

(defun edn-bridge-edn-pretty-print (value &optional width)
  "Insert VALUE at point as EDN text laid out for reading.
A collection that fits in WIDTH columns (default: 76) stays on its line."
  (edn-bridge-edn--pretty value (or width 76) 0))

(defconst edn-bridge-edn-empty-map (make-hash-table :size 1)
  "What prints as {}.  Nil, as which the empty map is read, prints as nil.")

(defsubst edn-bridge-edn-true-p (value)
  "Return non-nil if VALUE, as read, is neither nil nor false."
  (and value (not (eq value :false))))

(defsubst edn-bridge-edn-bool (value)
  "Return Lisp's truth VALUE as what prints as true or false."
  (if value t :false))

;;;; Reading, the fast way

(defconst edn-bridge-edn--rare "[#(),;'`?@~^\\NM]"
  "Matches what may mean one thing in EDN and another in Lisp.
Looked for outside strings only.  N and M may end a number.")

(defun edn-bridge-edn--patch (bytes)
  "Return BYTES, a line of EDN, as a line for Lisp's `read', or nil.
Nil means that `read' cannot be trusted with it.  BYTES stays as it is."
  ;; Every variable of a character holds the next place of it, at or after
  ;; the start of the gap between two strings that is being patched, and
  ;; is looked up again only when a string was jumped over.
  (let* ((case-fold-search nil)
         (line (copy-sequence bytes))
         (end (length line))
         (start 0)
         (open (or (string-search "{" line) end))
         (close (or (string-search "}" line) end))
         (true (or (string-search "true" line) end))
         (false (or (string-search "false" line) end))
         (rare (or (string-match-p edn-bridge-edn--rare line) end))
         (falses nil)
         ;; Two escapes that are one character are two for `read'.
         (plain (not (or (string-search "\\ud" line)
                         (string-search "\\uD" line)))))
    (while (and plain (< start end))
      (let ((quote (or (string-search "\"" line start) end)))
        (when (< rare start)
          (setq rare (or (string-match-p edn-bridge-edn--rare line start) end)))
        (when (< open start)
          (setq open (or (string-search "{" line start) end)))
        (when (< close start)
          (setq close (or (string-search "}" line start) end)))
        (when (< true start)
          (setq true (or (string-search "true" line start) end)))
        (when (< false start)
          (setq false (or (string-search "false" line start) end)))
        (if (< rare quote)
            (setq plain nil)
          (while (< open quote)
            (aset line open ?\()
            (setq open (or (string-search "{" line (1+ open)) end)))
          (while (< close quote)
            (aset line close ?\))
            (setq close (or (string-search "}" line (1+ close)) end)))
          (while (< true quote)
            (when (edn-bridge-edn--token-p line true 4)
              (aset line (+ true 1) ?\s)
              (aset line (+ true 2) ?\s)
              (aset line (+ true 3) ?\s))
            (setq true (or (string-search "true" line (1+ true)) end)))
          (while (< false quote)
            (when (edn-bridge-edn--token-p line false 5)
              (push false falses))
            (setq false (or (string-search "false" line (1+ false)) end)))
          (if (= quote end)
              (setq start end)
            (setq start (or (string-search "\"" line (1+ quote)) end))
            (setq start (if (or (= start end)
                                (eq (aref line (1- start)) ?\\))
                            (edn-bridge-edn--after-string line (1+ quote))
                          (1+ start)))))))
    (cond ((not plain) nil)
          (falses (edn-bridge-edn--mark-falses line falses))
          (t line))))

(defsubst edn-bridge-edn--delimiter-p (byte)
  "Return non-nil if BYTE stands between tokens.  The rarer ones are left out."
  (memq byte '(?\s ?\[ ?\] ?\( ?\) ?{ ?} ?\" ?\t ?\r ?\n ?\f)))

(defun edn-bridge-edn--token-p (line start length)
  "Return non-nil if LINE has a whole token of LENGTH bytes at START."
  (let ((end (+ start length)))
    (and (or (= start 0)
             (edn-bridge-edn--delimiter-p (aref line (1- start))))
         (or (= end (length line))
             (edn-bridge-edn--delimiter-p (aref line end))))))

(defsubst edn-bridge-edn--escaped-p (line start place)
  "Return non-nil if an odd number of backslashes stands before PLACE.
They are counted in LINE, from START on."
  (and (> place start)
       (eq (aref line (1- place)) ?\\)
       (let ((before (1- place)))
         (while (and (> before start) (eq (aref line (1- before)) ?\\))
           (setq before (1- before)))
         (cl-oddp (- place before)))))

(defun edn-bridge-edn--after-string (line start)
  "Return the place after the string of LINE whose text begins at START.
Where the string does not end, return the end of LINE."
  (let ((quote (string-search "\"" line start)))
    ;; Text of a program may have tens of thousands of escaped quotes.
    (while (and quote
                (eq (aref line (1- quote)) ?\\)
                (or (not (eq (aref line (- quote 2)) ?\\))
                    (edn-bridge-edn--escaped-p line start quote)))
      (setq quote (string-search "\"" line (1+ quote))))
    (if quote
        (1+ quote)
      (length line))))

(defun edn-bridge-edn--mark-falses (line places)
  "Return LINE with a colon before the false at each of PLACES.
PLACES descend."
  (let ((pieces nil)
        (end (length line)))
    (dolist (place places)
      (push (substring line place end) pieces)
      (push ":" pieces)
      (setq end place))
    (push (substring line 0 end) pieces)
    (apply #'concat pieces)))

;;;; Reading, the complete way

(defconst edn-bridge-edn--depth-limit 512
  "How deep collections may be nested.  The wire's own limit is half of it.")

(defvar edn-bridge-edn--text)
(defvar edn-bridge-edn--place)
(defvar edn-bridge-edn--depth)

(defsubst edn-bridge-edn--peek ()
  "Return the next character, or nil at the end."
  (and (< edn-bridge-edn--place (length edn-bridge-edn--text))
       (aref edn-bridge-edn--text edn-bridge-edn--place)))

(defun edn-bridge-edn--read-slowly (bytes)
  "Return the one EDN form in BYTES, character by character."
  (let ((case-fold-search nil)
        (edn-bridge-edn--text (decode-coding-string bytes 'utf-8-unix t))
        (edn-bridge-edn--place 0)
        (edn-bridge-edn--depth 0)
        ;; Enough for the depth limit even when this runs interpreted.
        (max-lisp-eval-depth (max max-lisp-eval-depth 20000)))
    ;; Emacs 28 has a second limit, which later versions call obsolete.
    (cl-progv (and (< emacs-major-version 29) '(max-specpdl-size)) '(20000)
      (prog1 (edn-bridge-edn--read-form)
        (edn-bridge-edn--skip-blank)
        (when (edn-bridge-edn--peek)
          (edn-bridge-edn--fail "More than one form"
                                edn-bridge-edn--place))))))

(defun edn-bridge-edn--fail (reason place)
  "Signal that the text is no EDN for REASON at PLACE, a character offset."
  (signal 'edn-bridge-edn-error (list reason place)))

(defun edn-bridge-edn--skip-blank ()
  "Skip white space, commas, comments and discarded forms."
  (let ((more t))
    (while more
      (when (eq (string-match "\\(?:[ \t\r\n\f,]\\|;[^\n]*\\)+"
                              edn-bridge-edn--text edn-bridge-edn--place)
                edn-bridge-edn--place)
        (setq edn-bridge-edn--place (match-end 0)))
      (setq more (eq (string-search "#_" edn-bridge-edn--text
                                    edn-bridge-edn--place)
                     edn-bridge-edn--place))
      (when more
        (setq edn-bridge-edn--place (+ edn-bridge-edn--place 2))
        (edn-bridge-edn--read-form)))))

(defun edn-bridge-edn--read-form ()
  "Read the next form."
  (edn-bridge-edn--skip-blank)
  (let ((place edn-bridge-edn--place))
    (pcase (edn-bridge-edn--peek)
      ('nil (edn-bridge-edn--fail "End of text" place))
      (?\" (edn-bridge-edn--read-string))
      (?{ (edn-bridge-edn--read-map))
      (?\[ (vconcat (edn-bridge-edn--read-until ?\])))
      (?\( (vconcat (edn-bridge-edn--read-until ?\))))
      (?# (edn-bridge-edn--read-dispatch))
      (?\\ (edn-bridge-edn--read-character))
      ((or ?\) ?\] ?})
       (edn-bridge-edn--fail "Closed without being open" place))
      (_ (edn-bridge-edn--read-atom)))))

(defun edn-bridge-edn--read-until (closer)
  "Read the forms after the open bracket at point up to CLOSER."
  (let ((forms nil)
        (edn-bridge-edn--depth (1+ edn-bridge-edn--depth)))
    (when (> edn-bridge-edn--depth edn-bridge-edn--depth-limit)
      (edn-bridge-edn--fail "Nested too deep" edn-bridge-edn--place))
    (cl-incf edn-bridge-edn--place)
    (edn-bridge-edn--skip-blank)
    (while (not (eq (edn-bridge-edn--peek) closer))
      (push (edn-bridge-edn--read-form) forms)
      (edn-bridge-edn--skip-blank))
    (cl-incf edn-bridge-edn--place)
    (nreverse forms)))

(defun edn-bridge-edn--read-map ()
  "Read a map."
  (let* ((place edn-bridge-edn--place)
         (forms (edn-bridge-edn--read-until ?})))
    (when (cl-oddp (length forms))
      (edn-bridge-edn--fail "Key without a value" place))
    forms))

(defun edn-bridge-edn--read-dispatch ()
  "Read what begins with #: a set, a symbolic number or a tagged form."
  (cl-incf edn-bridge-edn--place)
  (pcase (edn-bridge-edn--peek)
    (?{ (vconcat (edn-bridge-edn--read-until ?})))
    (?# (cl-incf edn-bridge-edn--place)
        (pcase (edn-bridge-edn--read-token)
          ("Inf" 1.0e+INF)
          ("-Inf" -1.0e+INF)
          ("NaN" 0.0e+NaN)
          (_ (edn-bridge-edn--fail "No such number" edn-bridge-edn--place))))
    (_ (let ((tag (edn-bridge-edn--read-token)))
         (when (equal tag "")
           (edn-bridge-edn--fail "Tag without a name" edn-bridge-edn--place))
         (list :edn/tag (intern tag)
               :edn/value (edn-bridge-edn--read-form))))))

(defun edn-bridge-edn--read-token ()
  "Return the text up to the next delimiter and go there."
  (let* ((start edn-bridge-edn--place)
         (end (or (string-match-p "[][ \t\r\n\f,(){}\";]"
                                  edn-bridge-edn--text start)
                  (length edn-bridge-edn--text))))
    (setq edn-bridge-edn--place end)
    (substring edn-bridge-edn--text start end)))

(defun edn-bridge-edn--read-atom ()
  "Read a number, keyword, symbol, or one of nil, true and false."
  (let* ((place edn-bridge-edn--place)
         (token (edn-bridge-edn--read-token)))
    (cond
     ((equal token "nil") nil)
     ((equal token "true") t)
     ((equal token "false") :false)
     ((string-match "\\`[+-]?[0-9]+N?\\'" token)
      (string-to-number token))
     ((string-match
       "\\`[+-]?[0-9]+\\(?:\\.[0-9]*\\)?\\(?:[eE][+-]?[0-9]+\\)?M?\\'" token)
      (float (string-to-number token)))
     ((or (string-match-p "\\`[+-]?[0-9]" token) (equal token ":"))
      (edn-bridge-edn--fail "Neither number nor name" place))
     (t (intern token)))))

(defun edn-bridge-edn--read-character ()
  "Read a character literal; return it as a string."
  (cl-incf edn-bridge-edn--place)
  (let* ((place edn-bridge-edn--place)
         (first (edn-bridge-edn--peek)))
    (unless first
      (edn-bridge-edn--fail "End of text" place))
    (cl-incf edn-bridge-edn--place)
    (let ((token (concat (string first) (edn-bridge-edn--read-token))))
      (pcase token
        ("newline" "\n")
        ("space" " ")
        ("tab" "\t")
        ("return" "\r")
        ("formfeed" "\f")
        ("backspace" "\b")
        ((pred (string-match-p "\\`u[[:xdigit:]]\\{4\\}\\'"))
         (string (string-to-number (substring token 1) 16)))
        ((pred (lambda (text) (= (length text) 1))) token)
        (_ (edn-bridge-edn--fail "No such character" place))))))

(defun edn-bridge-edn--read-string ()
  "Read a string."
  (let* ((start (1+ edn-bridge-edn--place))
         (end (edn-bridge-edn--after-string edn-bridge-edn--text start))
         (last (1- end)))
    (unless (and (>= last start)
                 (eq (aref edn-bridge-edn--text last) ?\")
                 (not (edn-bridge-edn--escaped-p edn-bridge-edn--text
                                                 start last)))
      (edn-bridge-edn--fail "String without an end" edn-bridge-edn--place))
    (setq edn-bridge-edn--place end)
    (let ((text (substring edn-bridge-edn--text start last)))
      (if (string-search "\\" text)
          (edn-bridge-edn--unescape text)
        text))))

(defun edn-bridge-edn--unescape (text)
  "Return TEXT, the inside of a string, with its escapes resolved."
  (replace-regexp-in-string
   (concat "\\\\\\(?:u[dD][89abAB][[:xdigit:]]\\{2\\}"
           "\\\\u[dD][c-fC-F][[:xdigit:]]\\{2\\}"
           "\\|u[[:xdigit:]]\\{4\\}\\|.\\|\n\\)")
   #'edn-bridge-edn--unescape-one text t t))

(defun edn-bridge-edn--unescape-one (escape)
  "Return what ESCAPE, backslash included, stands for."
  (pcase (aref escape 1)
    (?n "\n")
    (?t "\t")
    (?r "\r")
    (?b "\b")
    (?f "\f")
    ((or ?\\ ?\") (substring escape 1))
    ((and ?u (guard (= (length escape) 6)))
     (string (string-to-number (substring escape 2) 16)))
    ((and ?u (guard (= (length escape) 12)))
     (let ((high (string-to-number (substring escape 2 6) 16))
           (low (string-to-number (substring escape 8) 16)))
       (string (+ #x10000 (ash (- high #xD800) 10) (- low #xDC00)))))
    (_ (edn-bridge-edn--fail (concat "No such escape: " escape)
                             edn-bridge-edn--place))))

;;;; Printing

(defun edn-bridge-edn--print (value pieces)
  "Return PIECES, strings in reverse order, with the text of VALUE added."
  (pcase value
    ((pred stringp)
     (cons (edn-bridge-edn--quote value) pieces))
    ((or (pred numberp) (pred symbolp))
     (cons (edn-bridge-edn--atom value) pieces))
    ((or (pred consp) (pred hash-table-p))
     (let ((separator "{"))
       (edn-bridge-edn--map-pairs
        (lambda (key item)
          (push separator pieces)
          (setq pieces (edn-bridge-edn--print key pieces))
          (push " " pieces)
          (setq pieces (edn-bridge-edn--print item pieces))
          (setq separator " "))
        value)
       (when (equal separator "{")
         (push separator pieces))
       (cons "}" pieces)))
    ((pred vectorp)
     (let ((separator "["))
       (mapc (lambda (item)
               (push separator pieces)
               (setq pieces (edn-bridge-edn--print item pieces))
               (setq separator " "))
             value)
       (when (equal separator "[")
         (push separator pieces))
       (cons "]" pieces)))
    (_ (signal 'wrong-type-argument (list 'edn-bridge-edn-value value)))))

(defun edn-bridge-edn--map-pairs (function map)
  "Call FUNCTION with each key and value of MAP, a plist or a hash table."
  (if (hash-table-p map)
      (maphash function map)
    (unless (and (proper-list-p map) (cl-evenp (length map)))
      (signal 'wrong-type-argument (list 'plistp map)))
    (cl-loop for (key value) on map by #'cddr
             do (funcall function key value))))

(defun edn-bridge-edn--atom (value)
  "Return the text of VALUE, a number or a symbol."
  (pcase value
    ('nil "nil")
    ('t "true")
    (:false "false")
    ((pred integerp) (number-to-string value))
    ((and (pred floatp) (pred isnan)) "##NaN")
    ((pred (equal 1.0e+INF)) "##Inf")
    ((pred (equal -1.0e+INF)) "##-Inf")
    ((pred floatp) (number-to-string value))
    (_ (symbol-name value))))

(defun edn-bridge-edn--quote (string)
  "Return STRING as an EDN string, quotes included.
Bytes that are no character become U+FFFD: EDN text is UTF-8."
  (concat "\""
          (if (string-match-p "[\"\\[:cntrl:]\x3fff80-\x3fffff]"
                              (string-to-multibyte string))
              (replace-regexp-in-string "[\"\\[:cntrl:]\x3fff80-\x3fffff]"
                                        #'edn-bridge-edn--escape
                                        (string-to-multibyte string) t t)
            string)
          "\""))

(defun edn-bridge-edn--escape (char)
  "Return how CHAR, a string of one character, is written in a string."
  (pcase (aref char 0)
    (?\n "\\n")
    (?\t "\\t")
    (?\r "\\r")
    (?\b "\\b")
    (?\f "\\f")
    ((or ?\" ?\\) (concat "\\" char))
    ((pred (< #x3fff7f)) "\N{U+FFFD}")
    (code (format "\\u%04x" code))))

(defun edn-bridge-edn--pretty (value width tail)
  "Insert VALUE for reading, within WIDTH columns.
TAIL is the number of closing brackets that will follow on the line."
  (let ((flat (edn-bridge-edn-print-string value))
        (column (current-column)))
    (cond
     ((or (not (or (consp value) (hash-table-p value) (vectorp value)))
          (<= (+ column (string-width flat) tail) width))
      (insert flat))
     ((vectorp value)
      (insert "[")
      (dotimes (index (length value))
        (unless (zerop index)
          (insert "\n" (make-string (1+ column) ?\s)))
        (edn-bridge-edn--pretty (aref value index) width
                                (if (= index (1- (length value)))
                                    (1+ tail)
                                  0)))
      (insert "]"))
     (t
      (insert "{")
      (let ((first t))
        (edn-bridge-edn--map-pairs
         (lambda (key item)
           (unless first
             (insert "\n" (make-string (1+ column) ?\s)))
           (setq first nil)
           (insert (edn-bridge-edn-print-string key) " ")
           (edn-bridge-edn--pretty item width (1+ tail)))
         value))
      (insert "}")))))

(provide 'edn-bridge-edn)

;;; edn-bridge-edn.el ends here

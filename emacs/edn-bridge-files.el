;;; edn-bridge-files.el --- The agent works on open buffers  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: MIT OR Apache-2.0

;;; Commentary:

;; The bridge is told which files of the chat's folder are open in Emacs.
;; What the agent reads of those is what their buffers show, unsaved changes
;; included; what it edits is edited there too, as a change that can be
;; undone.
;;
;; The bridge alone reads and writes these files.  A path of the project may
;; lead elsewhere at any moment, so what the agent does causes no access to
;; it here: a buffer gives its text, says which state of the file it was
;; made of, and gets what is on disk by message.  No lock is made, and no
;; hook of saving runs, unless the user says so.
;;
;; No hook of a user's buffer is set for that: what is open is looked at
;; before a message is sent, and every second while a turn runs.

;;; Code:

(require 'cl-lib)
(require 'edn-bridge-chat)
(require 'edn-bridge-input)
(require 'edn-bridge-buffers)
(require 'edn-bridge-diagnostics)

(defcustom edn-bridge-files-share t
  "Non-nil means that the agent works on the buffers of files that are open.
It reads their unsaved changes, and its edits can be undone in them.
Otherwise it reads and changes the files on disk."
  :type 'boolean
  :group 'edn-bridge)

(defcustom edn-bridge-files-run-before-save nil
  "Non-nil means that `before-save-hook' runs when an edit is saved.
Functions there may change more than what you allowed, such as the layout
of the whole file; the agent is shown what they made of its text."
  :type 'boolean
  :group 'edn-bridge)

(defconst edn-bridge-files--count 1000
  "How many files are registered with the bridge at most.")

(defconst edn-bridge-files--size 4000000
  "Largest buffer, in characters, that the agent works on.")

(defvar-local edn-bridge-files--told nil
  "What the bridge was told last: connection, session and files.")

(defvar-local edn-bridge-files--refused nil
  "The connection to a bridge that does not know of open files, or nil.")

;;;; What is open

(defun edn-bridge-files--usable-p (buffer)
  "Return non-nil if the text of BUFFER is that of its file."
  (with-current-buffer buffer
    (and enable-multibyte-characters
         (not (buffer-base-buffer))
         (<= (buffer-size) edn-bridge-files--size)
         ;; These keep something else in the buffer than in the file.
         (null write-contents-functions)
         (not (eq (coding-system-type (edn-bridge-files--coding)) 'raw-text))
         ;; Compressed or encrypted.
         (not (find-file-name-handler (file-local-name buffer-file-name)
                                      'insert-file-contents)))))

(defun edn-bridge-files--open ()
  "Return the buffers of files of this folder that the agent can work on."
  (let ((folder (expand-file-name default-directory))
        (buffers nil)
        (count 0))
    (dolist (buffer (buffer-list))
      (when (and (< count edn-bridge-files--count)
                 (edn-bridge-buffers-below-p buffer folder)
                 (edn-bridge-files--usable-p buffer))
        (push buffer buffers)
        (cl-incf count)))
    (nreverse buffers)))

(defun edn-bridge-files-shared-p (buffer)
  "Return non-nil if the agent of this chat works on BUFFER, not on its file."
  (and edn-bridge-buffers-shared
       (memq buffer (edn-bridge-files--open))
       t))

(defun edn-bridge-files--list ()
  "Return what the bridge is to know of the files that are open, a vector.
Where they are not shared, their buffers follow them all the same."
  (edn-bridge-files--note-bases)
  (vconcat
   (mapcar
    (lambda (buffer)
      (with-current-buffer buffer
        (let ((file (file-local-name buffer-file-name))
              (true (file-local-name (edn-bridge-buffers-true-name buffer)))
              (visited (edn-bridge-files--visited)))
          (append
           (list :path file)
           (and true (not (equal true file)) (list :real-path true))
           (list :modified (edn-bridge-edn-bool
                            (and edn-bridge-files-share (buffer-modified-p))))
           (and edn-bridge-files-share
                (not (edn-bridge-files--utf-8-p))
                (list :encoding (symbol-name (coding-system-base
                                              (edn-bridge-files--coding)))))
           (and visited (list :visited visited))
           (and edn-bridge-files-share
                (edn-bridge-diagnostics-checked-p)
                '(:diagnostics t))))))
    (sort (edn-bridge-files--open)
          (lambda (a b)
            (string-lessp (buffer-file-name a) (buffer-file-name b)))))))

(defun edn-bridge-files-tell ()
  "Tell the bridge of this chat which files are open, if that is news."
  (let ((conn edn-bridge-chat--conn))
    (when (and (edn-bridge-rpc-ready-p conn)
               (not (eq conn edn-bridge-files--refused)))
      (let ((news (list conn edn-bridge-chat--session-id
                        edn-bridge-files-share
                        (and (or edn-bridge-files-share
                                 edn-bridge-buffers-revert)
                             (edn-bridge-files--list)))))
        (unless (or (equal news edn-bridge-files--told)
                    (and (null (nth 3 news))
                         (null edn-bridge-files--told)))
          (setq edn-bridge-files--told news)
          (edn-bridge-rpc-request
           conn "register_files"
           (list :files (or (nth 3 news) [])
                 :lock (format "%s@%s.%d" (user-login-name) (system-name)
                               (emacs-pid)))
           :on-success
           (lambda (_data)
             (edn-bridge-chat-with-buffer conn
               (setq edn-bridge-buffers-shared edn-bridge-files-share)))
           :on-error
           (lambda (frame)
             (edn-bridge-chat-with-buffer conn
               (setq edn-bridge-buffers-shared nil
                     edn-bridge-files--told nil)
               (when (equal (plist-get frame :error-code)
                            "request/op-not-supported")
                 (setq edn-bridge-files--refused conn))))))))))

(defun edn-bridge-files--tell-anew ()
  "Tell the bridge which files are open: this chat is on a session anew."
  (setq edn-bridge-files--told nil
        edn-bridge-buffers-shared nil)
  (edn-bridge-files-tell))

(defun edn-bridge-files--on-call (_data)
  "Tell the bridge which files are open, as the model writes a tool call."
  (edn-bridge-files-tell))

;;;; Texts and states of files

(defun edn-bridge-files--coding ()
  "Return the coding system in which this buffer is saved."
  (let ((coding (or buffer-file-coding-system 'utf-8-unix)))
    (when (eq (coding-system-type coding) 'undecided)
      (setq coding (coding-system-change-text-conversion coding 'utf-8)))
    (if (vectorp (coding-system-eol-type coding))
        (coding-system-change-eol-conversion coding 'unix)
      coding)))

(defun edn-bridge-files--utf-8-p ()
  "Return non-nil if the file of this buffer is UTF-8 without a signature."
  (eq (coding-system-base (edn-bridge-files--coding)) 'utf-8))

(defun edn-bridge-files--dos-p ()
  "Return non-nil if the lines of this buffer's file end as those of DOS."
  (eq (coding-system-eol-type (edn-bridge-files--coding)) 1))

(defun edn-bridge-files--whole ()
  "Return the whole text of this buffer."
  (save-restriction
    (widen)
    (buffer-substring-no-properties (point-min) (point-max))))

(defun edn-bridge-files--text ()
  "Return the text of this buffer, with the ends of lines that are saved."
  (let ((text (edn-bridge-files--whole)))
    (if (edn-bridge-files--dos-p)
        (string-replace "\n" "\r\n" text)
      text)))

(defun edn-bridge-files--bytes ()
  "Return the bytes that the text of this buffer has in its file."
  (encode-coding-string (edn-bridge-files--whole)
                        (edn-bridge-files--coding)))

(defun edn-bridge-files--digest (text)
  "Return the digest of TEXT, as the bridge makes it."
  (secure-hash 'sha256 (encode-coding-string text 'utf-8-unix)))

(defun edn-bridge-files--visited ()
  "Return the state of this buffer's file when it was read or written last.
That is what Emacs noted then.  Without a note, nil; of a remote file, whose
numbers Emacs does not know, one that no file has."
  (let ((time (visited-file-modtime)))
    (cond
     ((memq time '(0 -1 nil)) nil)
     ((file-remote-p buffer-file-name) '(:device 0 :inode 0 :time 0))
     ((and (consp buffer-file-number)
           (integerp (car buffer-file-number))
           (integerp (cadr buffer-file-number)))
      (list :device (cadr buffer-file-number)
            :inode (car buffer-file-number)
            :time (car (time-convert time 1000000000)))))))

(defvar-local edn-bridge-files--base nil
  "The bytes that this buffer's text last equalled in its file, or nil.
A list of their digest, the time of that file, and the tick of the text.")

(defconst edn-bridge-files--note-size 2000000
  "How many characters of buffers are noted at most each time.")

(defun edn-bridge-files--note-bases ()
  "Note what the buffers without unsaved changes equal in their files."
  (let ((left edn-bridge-files--note-size))
    (dolist (buffer (edn-bridge-files--open))
      (with-current-buffer buffer
        (unless (or (buffer-modified-p)
                    (and (eq (nth 2 edn-bridge-files--base)
                             (buffer-chars-modified-tick))
                         (equal (nth 1 edn-bridge-files--base)
                                (visited-file-modtime)))
                    (< (setq left (- left (buffer-size))) 0))
          (edn-bridge-files--note-base
           (secure-hash 'sha256 (edn-bridge-files--bytes))))))))

(defun edn-bridge-files--note-base (digest)
  "Note that this buffer's text has the bytes of DIGEST in its file."
  (setq edn-bridge-files--base
        (list digest (visited-file-modtime) (buffer-chars-modified-tick))))

(defun edn-bridge-files--made-of ()
  "Return which state of its file this buffer's text was made of, a plist."
  (cond
   ((not (buffer-modified-p))
    (list :base (secure-hash 'sha256 (edn-bridge-files--bytes))))
   ((and edn-bridge-files--base
         (equal (nth 1 edn-bridge-files--base) (visited-file-modtime)))
    (list :base (nth 0 edn-bridge-files--base)))
   (t
    (when-let ((visited (edn-bridge-files--visited)))
      (list :visited visited)))))

(defun edn-bridge-files--equals (visited digest)
  "Note that this buffer's file is now in the state VISITED, with DIGEST.
Nothing is asked of the file system."
  (set-visited-file-modtime (cons (plist-get visited :time) 1000000000))
  (unless (file-remote-p buffer-file-name)
    (setq buffer-file-number (list (plist-get visited :inode)
                                   (plist-get visited :device))))
  (edn-bridge-files--note-base digest))

;;;; What the bridge asks for

(defun edn-bridge-files--on-requested (data)
  "Do what DATA of `file/requested' asks for, and answer."
  (let* ((conn edn-bridge-chat--conn)
         (send (lambda (answer)
                 (edn-bridge-rpc-request
                  conn "file_result"
                  (append (list :request-id (plist-get data :request-id)) answer)
                  :on-success #'ignore
                  ;; It may have been cancelled.
                  :on-error #'ignore)))
         (answer (condition-case err
                     (edn-bridge-files--answer data send)
                   ((error quit)
                    (list :status "failed"
                          :error-message (error-message-string err))))))
    (when answer
      (funcall send answer))))

(defun edn-bridge-files--answer (data send)
  "Do what DATA of `file/requested' asks for; return what to answer.
Return nil if SEND is called with the answer later."
  (let ((buffer (edn-bridge-buffers-visiting (plist-get data :path)))
        (chat (current-buffer)))
    (if (not (and buffer
                  edn-bridge-files-share
                  (memq buffer (edn-bridge-files--open))))
        '(:status "closed")
      (with-current-buffer buffer
        (pcase (edn-bridge-chat-word (plist-get data :action))
          ("read" (edn-bridge-files--shown))
          ("write"
           (edn-bridge-diagnostics-note (plist-get data :turn-id))
           (edn-bridge-files--write data chat))
          ("diagnostics" (edn-bridge-files--check data send))
          (_
           '(:status "failed" :error-message "Emacs does not know how")))))))

(defun edn-bridge-files--check (data send)
  "Have this buffer checked for DATA of `file/requested'.
SEND is called with the answer before the time for it is over."
  (if (not (edn-bridge-diagnostics-checked-p))
      '(:status "closed")
    (edn-bridge-diagnostics-ask
     (plist-get data :turn-id)
     ;; The way of the answer takes a moment too.
     (* 0.9 (/ (or (plist-get data :timeout-ms) 0) 1000.0))
     (lambda (new)
       (funcall send (list :status "ok" :diagnostics new))))
    nil))

(defun edn-bridge-files--shown ()
  "Return the text of this buffer as an answer."
  (append (list :status "ok"
                :text (edn-bridge-files--text)
                :modified (edn-bridge-edn-bool (buffer-modified-p)))
          (unless (edn-bridge-files--utf-8-p)
            (list :bytes (base64-encode-string (edn-bridge-files--bytes) t)))
          (edn-bridge-files--made-of)))

(defvar-local edn-bridge-files--changes nil
  "In a chat, the changes of buffers that are not on disk yet.
Each is a list of the request, the buffer, its text before, whether that
had unsaved changes, and the tick after.")

(defun edn-bridge-files--write (data chat)
  "Give this buffer the text that DATA of `file/requested' has; return an answer.
CHAT notes the change, which the bridge saves."
  (let* ((text (plist-get data :text))
         (new (and (stringp text)
                   (if (edn-bridge-files--dos-p)
                       (string-replace "\r\n" "\n" text)
                     text)))
         (modified (buffer-modified-p)))
    (cond
     ((not (stringp new))
      '(:status "failed" :error-message "There is no text"))
     ;; A buffer without changes of its own has nothing to lose.
     ((and modified
           (not (equal (plist-get data :expected)
                       (edn-bridge-files--digest (edn-bridge-files--text)))))
      '(:status "changed"))
     ;; The file itself can be changed; the buffer follows it.
     ((and buffer-read-only (not modified))
      '(:status "closed"))
     (buffer-read-only
      '(:status "failed"
        :error-message "Its buffer in Emacs is read-only and has unsaved changes"))
     ((edn-bridge-files--unencodable-p new)
      (list :status "failed"
            :error-message
            (format "Emacs keeps this file as %s, which has no code for some of these characters"
                    buffer-file-coding-system)))
     (t
      (let ((old (edn-bridge-files--whole))
            (made-of (edn-bridge-files--made-of)))
        (edn-bridge-files--replace new)
        (when edn-bridge-files-run-before-save
          (let ((buffer-file-truename nil))
            (with-demoted-errors "edn-bridge: before-save-hook: %S"
              (save-restriction (widen) (run-hooks 'before-save-hook)))))
        (let ((change (list (plist-get data :request-id) (current-buffer)
                            old modified (buffer-chars-modified-tick))))
          (with-current-buffer chat
            (push change edn-bridge-files--changes)))
        (append
         (list :status "ok" :text (edn-bridge-files--text) :modified t)
         (unless (edn-bridge-files--utf-8-p)
           (list :bytes (base64-encode-string (edn-bridge-files--bytes) t)))
         ;; The ends of lines are those that the user has in this file.
         (and (or edn-bridge-files-run-before-save
                  (edn-bridge-files--dos-p))
              (list :final t))
         made-of))))))

(defun edn-bridge-files--unencodable-p (text)
  "Return non-nil if TEXT cannot be saved in this buffer's coding system."
  (unless (edn-bridge-files--utf-8-p)
    (unencodable-char-position 0 (length text) (edn-bridge-files--coding)
                               nil text)))

(defun edn-bridge-files--replace (new)
  "Make NEW the text of this buffer, as one change that can be undone.
Only what differs is replaced: points and markers elsewhere stay.  Its file
is not looked at, and not locked."
  (let ((buffer-file-truename nil)
        (inhibit-read-only t)
        (inhibit-message t))
    (save-restriction
      (widen)
      (let* ((old (buffer-substring-no-properties (point-min) (point-max)))
             (head (let ((same (compare-strings old nil nil new nil nil)))
                     (if (eq same t) (length old) (1- (abs same)))))
             (tail (edn-bridge-files--same-tail old new head)))
        (unless (equal old new)
          (undo-boundary)
          (atomic-change-group
            (save-excursion
              (goto-char (+ (point-min) head))
              (let ((inhibit-field-text-motion t))
                (insert (substring new head (- (length new) tail)))
                (delete-region (point) (- (point-max) tail)))))
          (undo-boundary))))))

(defun edn-bridge-files--same-tail (old new head)
  "Return how long the end is that OLD and NEW have in common.
Their beginnings up to HEAD are not looked at."
  ;; The longest is found by halves: to compare them is fast.
  (let ((low 0)
        (high (- (min (length old) (length new)) head)))
    (while (< low high)
      (let ((size (/ (+ low high 1) 2)))
        (if (eq t (compare-strings old (- (length old) size) nil
                                   new (- (length new) size) nil))
            (setq low size)
          (setq high (1- size)))))
    low))

(defun edn-bridge-files--unmodified (&optional locked)
  "Note that this buffer has no unsaved changes.
With LOCKED non-nil, Emacs takes away the lock beside the file, which it has
made for the user's own changes."
  (let ((buffer-file-truename (and locked buffer-file-truename)))
    (set-buffer-modified-p nil)))

(defun edn-bridge-files--take (id)
  "Return the change of the request ID, and forget it."
  (when-let ((change (assoc id edn-bridge-files--changes)))
    (setq edn-bridge-files--changes (delq change edn-bridge-files--changes))
    change))

(defun edn-bridge-files--on-cancelled (data)
  "Undo the change that DATA of `request/cancelled' names: it is not on disk."
  (pcase (edn-bridge-files--take (plist-get data :request-id))
    (`(,_ ,(and buffer (pred buffer-live-p)) ,old ,modified ,tick)
     (with-current-buffer buffer
       ;; What the user has typed since would be lost.
       (when (eq tick (buffer-chars-modified-tick))
         (edn-bridge-files--replace old)
         (unless modified
           (edn-bridge-files--unmodified)))))))

;;;; What is on disk

(defvar-local edn-bridge-files--noticed nil
  "What the chat was told last of this buffer's file.")

(defun edn-bridge-files--on-changed (data)
  "Have the buffer of the file that DATA of `file/changed' names follow it."
  (let ((visited (plist-get data :visited))
        (digest (plist-get data :sha256))
        (request (plist-get data :request-id)))
    (if request
        (pcase (edn-bridge-files--take request)
          (`(,_ ,(and buffer (pred buffer-live-p)) ,_ ,modified ,tick)
           (with-current-buffer buffer
             (edn-bridge-files--equals visited digest)
             ;; What the user has typed since is not on disk.
             (when (eq tick (buffer-chars-modified-tick))
               (edn-bridge-files--unmodified modified)
               (edn-bridge-files--tell-server)))))
      (when-let ((buffer (edn-bridge-buffers-visiting (plist-get data :path))))
        (let ((chat (current-buffer))
              (bytes (cond ((plist-get data :text)
                            (encode-coding-string (plist-get data :text)
                                                  'utf-8-unix))
                           ((plist-get data :bytes)
                            (base64-decode-string (plist-get data :bytes))))))
          (with-current-buffer buffer
            (if (and bytes visited)
                (edn-bridge-files--follow bytes visited digest chat)
              (edn-bridge-files--notice
               chat (plist-get data :problem)
               (format "is no file that its buffer can follow: %s"
                       (or (plist-get data :problem) "it has no content"))))))))))

(defun edn-bridge-files--follow (bytes visited digest chat)
  "Have this buffer follow its file, which has BYTES now.
VISITED is the file's state and DIGEST that of BYTES.  CHAT is told what
cannot be done."
  (cond
   ((equal digest (secure-hash 'sha256 (edn-bridge-files--bytes)))
    (edn-bridge-files--equals visited digest)
    (when (buffer-modified-p)
      (edn-bridge-files--unmodified 'locked)))
   ((buffer-modified-p)
    (edn-bridge-files--notice
     chat digest "was changed on disk, and its buffer has unsaved changes."))
   (edn-bridge-buffers-revert
    (let* ((coding (edn-bridge-files--coding))
           (new (decode-coding-string bytes coding)))
      (if (not (equal bytes (encode-coding-string new coding)))
          (edn-bridge-files--notice
           chat digest
           (format "was changed on disk, and is not %s any more." coding))
        (edn-bridge-files--replace new)
        (edn-bridge-files--equals visited digest)
        (edn-bridge-files--unmodified))))))

(defun edn-bridge-files--notice (chat what text)
  "Say in CHAT of this buffer's file TEXT, unless WHAT was noticed last."
  (unless (equal what edn-bridge-files--noticed)
    (setq edn-bridge-files--noticed what)
    (let ((buffer (current-buffer))
          (name (file-local-name buffer-file-name)))
      (with-current-buffer chat
        (edn-bridge-chat-notice
         (format "%s %s"
                 (edn-bridge-visible-label
                  (string-remove-prefix
                   (file-local-name (expand-file-name default-directory))
                   name))
                 (edn-bridge-visible-label text))
         'edn-bridge-error
         (list "Show the difference"
               (lambda ()
                 (interactive)
                 (diff-buffer-with-file buffer))))))))

(declare-function eglot--signal-textDocument/didSave "eglot")

(defun edn-bridge-files--tell-server ()
  "Tell the language server of this buffer that its file was saved.
No other function of `after-save-hook' runs."
  (when (memq 'eglot--signal-textDocument/didSave
              (bound-and-true-p after-save-hook))
    (ignore-errors
      (eglot--signal-textDocument/didSave))))

;;;; Registering

(defun edn-bridge-files--on-turn-clock ()
  "Tell the bridge which files are open, while a turn runs."
  (when (edn-bridge-chat-running-p)
    (edn-bridge-files-tell)))

(add-hook 'edn-bridge-chat-ready-hook #'edn-bridge-files--tell-anew)
(add-hook 'edn-bridge-input-send-hook #'edn-bridge-files-tell)
(add-hook 'edn-bridge-chat-clock-hook #'edn-bridge-files--on-turn-clock)
(edn-bridge-chat-handle "tool/start" #'edn-bridge-files--on-call)
(edn-bridge-chat-handle "file/requested" #'edn-bridge-files--on-requested)
(edn-bridge-chat-handle "file/changed" #'edn-bridge-files--on-changed)
(edn-bridge-chat-handle "request/cancelled" #'edn-bridge-files--on-cancelled)

(provide 'edn-bridge-files)

;;; edn-bridge-files.el ends here
